"""Check the Host header: a web page can let its own name point to this machine and ask an open server (DNS rebinding).

A page cannot do so with an address in place of a name. So servers in a network answer requests to any address; load
balancers and monitors use these.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address

from radii.errors import ParameterError

_NAME = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*"
_HEADER = re.compile(rf"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>{_NAME})\.?)(?::\d{{1,5}})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class AllowedHosts:
    """The hosts that requests may name, for a server that listens on the address or name `bound`.

    Loopback names and addresses, `bound` and the `stated` names are always allowed. Beyond loopback, addresses are too;
    and any name, if tokens protect the server and no names are stated.
    """

    bound: str = "127.0.0.1"
    stated: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.stated:
            if not re.fullmatch(_NAME, name, re.ASCII | re.IGNORECASE):
                raise ParameterError(
                    f"host_names has {name!r}, expected a name such as models.example.org", "host_names"
                )

    @property
    def network(self) -> bool:
        """Whether the server listens on more than loopback."""
        return not _is_loopback(self.bound.lower())

    def allow(self, header: str, *, protected: bool) -> bool:
        """Return whether a request with this Host header may be answered; `protected` servers ask for a token."""
        match = _HEADER.fullmatch(header)
        if match is None:
            return False
        host = (match["address"] or match["name"]).lower()
        if _is_loopback(host) or host in {name.lower() for name in (self.bound, *self.stated)}:
            return True
        return self.network and (_is_address(host) or (protected and not self.stated))


def _is_loopback(host: str) -> bool:
    if not _is_address(host):
        return host == "localhost" or host.endswith(".localhost")
    address = ip_address(host)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

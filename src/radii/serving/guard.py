"""Check every request before its route: the Host header, the token and the size; count it and log it.

A web page can let its own name point to this machine and ask an open server (DNS rebinding), so the Host header is
checked. A page cannot do so with an address in place of a name. So servers in a network answer requests to any address;
load balancers and monitors use these.
"""

import hashlib
import hmac
import logging
import re
import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radii.errors import ParameterError
from radii.serving.request import BusyError

if TYPE_CHECKING:
    from radii.serving.routes import Api

LOG = logging.getLogger("radii.serving")
MOST_HELD = 256 << 20
"""Bytes of the bodies of all requests in flight."""
HEALTH = ("/v2/health/live", "/v2/health/ready")
OPEN = ("/", *HEALTH)
"""Paths that need no token."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
        b"script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
    ),
)
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


def server_failed() -> JSONResponse:
    """Return the answer to a request that caused an unexpected error."""
    return JSONResponse({"error": "The server failed. Its log says why."}, 500)


class Guard:
    """The application around the routes: refuses requests, answers errors without a traceback, counts and logs."""

    def __init__(self, app: ASGIApp, api: "Api") -> None:
        self._app, self._api = app, api
        self._held = 0
        """Bytes of bodies in memory."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, held = time.monotonic(), 0, 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        async def receiving() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            held += size
            self._held += size
            if size and self._held > MOST_HELD:
                raise BusyError(1, "too many bytes are being read")
            return message

        try:
            await (self._refusal(scope) or self._app)(scope, receiving, sending)
        except Exception:
            if status == 0:  # otherwise it is answered and logged already
                LOG.exception("a request failed")
                await server_failed()(scope, receive, sending)
        finally:
            self._held -= held
            self._log(scope, status, time.monotonic() - began)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        """Return the answer to a request that must not reach its route."""
        headers = dict(scope["headers"])
        if not self._host_allowed(scope):
            host = headers[b"host"].decode("latin-1")[:100]
            words = (
                f"The Host header names {host!r}, which this server does not answer to. "
                "Call it by the address that it listens on, or start it with --host-name and that name."
            )
            return JSONResponse({"error": words}, 421)
        if b"content-length" in headers and b"transfer-encoding" in headers:  # a proxy may take the other one
            words = "Content-Length and Transfer-Encoding contradict each other. Send one of them."
            return JSONResponse({"error": words}, 400, {"connection": "close"})
        if scope["path"] not in OPEN and not self._token_allowed(headers.get(b"authorization", b"")):
            words = "A token is needed: Authorization: Bearer TOKEN."
            return JSONResponse({"error": words}, 401, {"www-authenticate": "Bearer"})
        return None

    def _host_allowed(self, scope: Scope) -> bool:
        """Return whether all Host headers are allowed; a browser never leaves the header out, an old probe does."""
        hosts, protected = self._api.hosts, bool(self._api.tokens)
        if hosts.network and scope["path"] in HEALTH:
            return True
        stated = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        return all(hosts.allow(host, protected=protected) for host in stated)

    def _token_allowed(self, authorization: bytes) -> bool:
        if not self._api.tokens:
            return True
        scheme, _, token = authorization.partition(b" ")
        digest = hashlib.sha256(token.strip()).digest()
        matches = [hmac.compare_digest(digest, hashlib.sha256(known.encode()).digest()) for known in self._api.tokens]
        return scheme.lower() == b"bearer" and any(matches)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        self._api.counters.request(getattr(scope.get("endpoint"), "__name__", "other"), status)
        level = logging.WARNING if status >= 500 else logging.INFO
        details = {"method": scope["method"], "path": scope["path"][:200], "status": status}
        LOG.log(level, "request", extra={"details": {**details, "milliseconds": round(1000 * seconds, 1)}})

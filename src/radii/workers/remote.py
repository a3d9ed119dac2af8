"""What a worker does: open the session once, work on an item, and report back."""

import os
import socket
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import Any

from radii.datasets.base import DataError
from radii.device import keep_freed_memory
from radii.provenance import rounding_environment
from radii.workers.pool import portable
from radii.workers.session import Shipment

OPENING = (ValueError, LookupError, OSError)
"""The errors of a session whose files are not here, or are others."""


class NotHereError(DataError):
    """A session that was sent without images was asked for one."""


@dataclass(frozen=True)
class Report:
    """The result of a task or its error, and who computed it."""

    found: Any
    seconds: float
    worker: str
    environment: dict[str, Any]
    good: bool = True


@dataclass(frozen=True)
class Missing:
    """The worker cannot open the session: it has to be sent; the reason is its error."""

    reason: str


def work(config: Any, item: Any, job: Callable[[Any, Any], Any], shipment: Shipment | None = None) -> Report:
    """Apply a job to a session and an item; errors are reported, not raised: what is raised is the executor's."""
    began = time.perf_counter()
    good, found = _result(config, item, job, shipment)
    name = f"{socket.gethostname()} {os.getpid()} {threading.get_ident()}"
    return Report(found, time.perf_counter() - began, name, _environment(getattr(config, "engine", "torch")), good)


def _result(config: Any, item: Any, job: Callable[[Any, Any], Any], shipment: Shipment | None) -> tuple[bool, Any]:
    try:
        session = _SESSIONS.session(config, shipment)
        return True, session if isinstance(session, Missing) else job(session, item)
    except NotHereError as error:
        return True, Missing(str(error))
    except Exception as error:
        return False, portable(error)


class _Sessions:
    """The session of this process: it is opened once, whatever the number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Hashable, Any] = {}

    def session(self, config: Any, shipment: Shipment | None) -> Any:
        with self._lock:
            if config not in self._open:
                keep_freed_memory()
                found = _opened(config, shipment)
                if isinstance(found, Missing):
                    return found
                self._open = {config: found}
            return self._open[config]


_SESSIONS = _Sessions()


def _opened(config: Any, shipment: Shipment | None) -> Any:
    try:
        return config.open()
    except OPENING as error:
        if shipment is not None:
            return shipment.open()
        return Missing(str(error))


_environment = cache(rounding_environment)

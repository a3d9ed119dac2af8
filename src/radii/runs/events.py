"""Events: what a process does with a run, as lines of JSON in the run's events.jsonl."""

import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from radii import disk
from radii.errors import RunWarning
from radii.runs import readers

FILE, PREVIOUS = "events.jsonl", "events-previous.jsonl"
MOST_BYTES = 1 << 20
"""Bytes of events.jsonl. A longer file becomes events-previous.jsonl, so both together need at most twice that."""
SECONDS_BETWEEN = 2.0
"""Seconds between two events of progress: a step may take a millisecond."""
ENDS = ("ended", "stopped", "failed")
"""The last event of a process, unless it was killed."""


class EventLog:
    """Appends the events of one process to a run's events.jsonl, each in a single write.

    The work goes on if the log cannot be written; a warning says so once.
    """

    def __init__(self, folder: Path, work: str) -> None:
        self.path = folder / FILE
        self.work = work
        self._last = -SECONDS_BETWEEN
        self._broken = False

    def write(self, event: str, **details: Any) -> None:
        """Append an event."""
        if self._broken:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "process": os.getpid(), "host": socket.gethostname(), "work": self.work, "event": event}
        try:
            disk.append(self.path, self._start() + json.dumps({**line, **details}).encode() + b"\n", create=True)
        except OSError as error:
            self._broken = True
            message = f"{self.path} cannot be written ({error.strerror or error}): the work goes on without events"
            warnings.warn(message, RunWarning, stacklevel=2)

    def due(self) -> bool:
        """Return whether to write an event of progress now: at most one every few seconds."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN:
            return False
        self._last = now
        return True

    def _start(self) -> bytes:
        """Move a long file away, and return what ends a line that a kill left incomplete."""
        if not self.path.is_file():
            return b""
        if self.path.stat().st_size > MOST_BYTES:
            disk.write(self.path, b"", keep=self.path.with_name(PREVIOUS))
            return b""
        return b"" if _last_byte(self.path) in (b"", b"\n") else b"\n"


@contextmanager
def working(folder: Path, work: str, **details: Any) -> Iterator[EventLog]:
    """Log the work of a process on a run: the first event is `began`, the last says how it ended."""
    log = EventLog(folder, work)
    log.write("began", **details)
    try:
        yield log
    except KeyboardInterrupt:
        log.write("stopped")
        raise
    except BaseException as error:
        log.write("failed", error=readers.short(error))
        raise
    log.write("ended")


def read(folder: Path) -> list[dict[str, Any]]:
    """Read the events of a run, oldest first; incomplete lines are skipped."""
    path = folder / FILE
    if not path.is_file():
        return []
    lines = readers.text(path, 2 * MOST_BYTES, errors="replace").splitlines()
    return [event for line in lines if (event := _parse(line))]


def _parse(line: str) -> dict[str, Any] | None:
    try:
        event = readers.parse_object(line, FILE)
    except ValueError:
        return None
    return event if all(isinstance(event.get(key), str) for key in ("time", "work", "event")) else None


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1)

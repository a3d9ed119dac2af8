"""Events: write and read the log of the work on a run, lines of JSON in its events.jsonl."""

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
"""The size at which events.jsonl becomes events-previous.jsonl, so that both need at most twice as many bytes."""
SECONDS_BETWEEN = 2.0
"""The least seconds between two events of progress, because a step may take only a millisecond."""
ENDS = ("ended", "stopped", "failed")
"""The names of a process's last event; a process that was killed writes none of them."""


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
        fields = {"time": now, "process": os.getpid(), "host": socket.gethostname(), "work": self.work, "event": event}
        try:
            disk.append(self.path, self._start() + json.dumps({**fields, **details}).encode() + b"\n", create=True)
        except OSError as error:
            self._broken = True
            message = f"{self.path} cannot be written ({error.strerror or error}). The work goes on without events."
            warnings.warn(message, RunWarning, stacklevel=2)

    def due(self) -> bool:
        """Return whether to write an event of progress now: at most one every few seconds."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN:
            return False
        self._last = now
        return True

    def _start(self) -> bytes:
        """Move a long file away; return a newline if a kill left the last line incomplete."""
        if not self.path.is_file():
            return b""
        if self.path.stat().st_size > MOST_BYTES:
            disk.write(self.path, b"", keep=self.path.with_name(PREVIOUS))
            return b""
        return b"" if _last_byte(self.path) in (b"", b"\n") else b"\n"


@contextmanager
def working(folder: Path, work: str, **details: Any) -> Iterator[EventLog]:
    """Log the work of a process on a run: `began` first, and last `ended`, `stopped` or `failed`."""
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

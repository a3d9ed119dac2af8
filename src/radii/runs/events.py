"""The events of a run while a process works on it: events.jsonl, one JSON object in a line."""

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
"""Of events.jsonl; a longer one becomes events-previous.jsonl, so that the two never need more than twice that."""
SECONDS_BETWEEN = 2.0
"""Between two events of progress: a step may take a millisecond."""
ENDS = ("ended", "stopped", "failed")
"""The last event of a process, unless it was killed."""


class EventLog:
    """Appends the events of one process to a run's events.jsonl, each in a single write.

    A log must not end the work that it describes: where it cannot be written, a warning says so once.
    """

    def __init__(self, folder: Path, work: str) -> None:
        self.path = folder / FILE
        self.work = work
        self._last = -SECONDS_BETWEEN
        self._broken = False

    def write(self, event: str, **facts: Any) -> None:
        """Append an event now."""
        if self._broken:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "process": os.getpid(), "host": socket.gethostname(), "work": self.work, "event": event}
        try:
            disk.append(self.path, self._start() + json.dumps({**line, **facts}).encode() + b"\n", create=True)
        except OSError as error:
            self._broken = True
            words = f"{self.path} cannot be written ({error.strerror or error}): the work goes on without events"
            warnings.warn(words, RunWarning, stacklevel=2)

    def due(self) -> bool:
        """Whether the next event of progress should be written; at most one is every few seconds."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN:
            return False
        self._last = now
        return True

    def _start(self) -> bytes:
        """What comes before a line: the end of a line that a kill left incomplete; a long file is put aside."""
        if not self.path.is_file():
            return b""
        if self.path.stat().st_size > MOST_BYTES:
            disk.write(self.path, b"", keep=self.path.with_name(PREVIOUS))
            return b""
        return b"" if _last_byte(self.path) in (b"", b"\n") else b"\n"


@contextmanager
def working(folder: Path, work: str, **facts: Any) -> Iterator[EventLog]:
    """The log of a process that works on a run: its first event is `began`, its last says how it ended."""
    log = EventLog(folder, work)
    log.write("began", **facts)
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
    """The events of a run, the oldest first; lines that a kill left incomplete are left out."""
    path = folder / FILE
    if not path.is_file():
        return []
    lines = readers.text(path, 2 * MOST_BYTES, errors="replace").splitlines()
    return [event for line in lines if (event := _event(line))]


def _event(line: str) -> dict[str, Any] | None:
    try:
        found = readers.parse_object(line, FILE)
    except ValueError:
        return None
    return found if all(isinstance(found.get(key), str) for key in ("time", "work", "event")) else None


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1)

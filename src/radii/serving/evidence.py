"""Write and read evidence: an append-only log of answers, in which every line names the digest of the line before.

A folder of evidence holds

    answers.jsonl   the log, one JSON object a line; see `docs/deployment.md` for its kinds
    pictures/       the prepared pictures by their digest, if they are kept
    index.sqlite    how often each picture was asked about; made again from the log if it is missing or damaged.
                    It is written after the log: if it counts lines that the log does not have, the log was cut

A line ends with its own digest, the SHA-256 of all before it, and begins with the digest of the line before.
"""

import errno
import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from radii import disk
from radii.errors import ParameterError
from radii.runs import readers
from radii.serving.budget import AskedIndex, share_of

LOG, INDEX, PICTURES = "answers.jsonl", "index.sqlite", "pictures"
FORMAT = 1
MOST_LINE = 1 << 26
"""Bytes of a line: a model of 100,000 classes is described in about ten million."""
FIRST = "0" * 64
"""The digest that the first line names, as there is no line before it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_END = re.compile(rb',"digest":"([0-9a-f]{64})"\}$')


class EvidenceError(ParameterError):
    """The evidence cannot be used; the message says why."""


class Entry(NamedTuple):
    """One line of the log."""

    number: int
    """From 1 on."""
    end: int
    """Bytes of the log up to the end of the line."""
    record: dict[str, Any]
    digest: str


def seal(seed: int) -> str:
    """Return the digest that commits to a seed of 128 bits without telling it."""
    return hashlib.sha256(b"radii seed " + seed.to_bytes(16, "big")).hexdigest()


def picture_digest(pixels: NDArray[np.float32]) -> str:
    """Return the SHA-256 of prepared pixels [channel, height, width]."""
    digest = hashlib.sha256(f"float32 {list(pixels.shape)} ".encode())
    digest.update(np.ascontiguousarray(pixels, dtype=np.float32).data)
    return digest.hexdigest()


def table_digest(table: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a table as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def log_file(folder: Path) -> Path:
    """Return the log of a folder of evidence."""
    return folder / LOG


def is_evidence(folder: Path) -> bool:
    """Return whether a folder holds evidence."""
    return log_file(folder).is_file()


def read_log(folder: Path, start: int = 0, lines: int = 0, head: str = FIRST) -> Iterator[Entry]:
    """Yield the lines of the log; raise an EvidenceError at the first one that does not continue the chain.

    `start` and `lines` are the bytes and lines to skip, and `head` is the digest of the last of these. A last line
    without an end, which a kill leaves, is ignored.
    """
    file = log_file(folder)
    with file.open("rb") as stream:
        stream.seek(start)
        for number in count(lines + 1):
            line = stream.readline(MOST_LINE + 1)
            if len(line) > MOST_LINE:
                raise _too_long(file, f"Line {number}")
            if not line.endswith(b"\n"):
                return
            record = _parse(line[:-1], head)
            if record is None:
                raise EvidenceError(
                    f"Line {number} of {file} was edited or moved, or lines before it are missing. "
                    "Restore the file from a copy, or start new evidence in another folder."
                )
            start += len(line)
            head = record.pop("digest")
            yield Entry(number, start, record, head)


def _too_long(file: Path, line: str) -> EvidenceError:
    return EvidenceError(
        f"{line} of {file} has more than {MOST_LINE:,} bytes: it was not written by radii. "
        "Restore the file from a copy, or start new evidence in another folder."
    )


def _parse(line: bytes, head: str) -> dict[str, Any] | None:
    """Return the record of a line, or None if it does not follow the line with the digest `head`."""
    end = _END.search(line)
    if end is None or hashlib.sha256(line[: end.start()] + b"}").hexdigest().encode() != end[1]:
        return None
    try:
        record = readers.parse_object(line.decode(), "")
    except ValueError:
        return None
    return record if record.get("previous") == head else None


class EvidenceLog:
    """Writes evidence into a folder. The caller holds the folder's lock."""

    def __init__(self, folder: Path) -> None:
        disk.make_folder(folder)
        _refuse_links(folder)
        self.folder = folder
        self.file = log_file(folder)
        self.repaired = self._cut_torn_line()
        """Bytes of an unfinished last line that were cut off."""
        self._place = 0, 0, FIRST
        self._torn = False
        """Whether bytes of a line that was not written completely may follow the last line."""
        self._behind = False
        """Whether the index may have counted other lines than the log holds."""
        self._index = self._open_index()

    @property
    def index(self) -> AskedIndex:
        """The count of questions, which agrees with the log: it is read again after an error."""
        if self._behind:
            self._check_file()
            self._index.close()
            self._index = self._open_index()
            self._behind = False
        return self._index

    def count_again(self) -> None:
        """Forget the questions that were counted since the last line; the index is read again before its next use."""
        self._behind = True

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Append records and wait until they are on the disk; return their digests."""
        try:
            self._check_file()
        except OSError:
            self._behind = True
            raise
        size, lines, head = self._place
        digests, content = [], []
        for record in records:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            body = json.dumps({"previous": head, "time": now, **record}, separators=(",", ":")).encode()
            head = hashlib.sha256(body).hexdigest()
            content.append(body[:-1] + f',"digest":"{head}"}}\n'.encode())
            digests.append(head)
        if max(map(len, content), default=0) > MOST_LINE:
            raise EvidenceError(f"A line of {self.file} would have more than {MOST_LINE:,} bytes. Use shorter names.")
        whole = b"".join(content)
        try:
            disk.append(self.file, whole, create=not size, sync=True)
        except OSError:
            self._behind = True
            self._torn = self.file.exists()  # part of it may be there
            with suppress(OSError):
                disk.truncate(self.file, size)
                self._torn = False
            raise
        self._place = size + len(whole), lines + len(records), head
        if not self._behind:
            try:
                self._index.keep(*self._place)
            except sqlite3.Error:
                self._behind = True  # the log is the truth, and it is on the disk
        return digests

    def _check_file(self) -> None:
        """Raise an OSError if somebody cut, replaced or removed the log since the last line was written."""
        size, _, _ = self._place
        same = not _cut_problem(self.file, self._place)
        if same and self._torn:
            disk.truncate(self.file, size)
            self._torn = False
        if not same or (self.file.stat().st_size if self.file.exists() else 0) != size:
            reason = "the log was cut, replaced or removed while the server ran: start the server again"
            raise OSError(errno.ESTALE, reason, str(self.file))

    def keep_picture(self, digest: str, pixels: NDArray[np.float32]) -> None:
        """Store a prepared picture, unless the folder has it."""
        file = picture_file(self.folder, digest)
        if not file.is_file():
            disk.make_folder(file.parent)
            disk.write(file, pixels.astype("<f4").tobytes())

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def _cut_torn_line(self) -> int:
        """Cut off a last line that a kill left unfinished, and return its length: nobody has seen its answer."""
        if not self.file.is_file():
            return 0
        with self.file.open("rb") as stream:
            size = stream.seek(0, 2)
            whole, tail = size, b""
            while whole and b"\n" not in tail:
                if size - whole > MOST_LINE:
                    raise _too_long(self.file, "The last line")
                start = max(0, whole - 65_536)
                stream.seek(start)
                tail = stream.read(whole - start)
                whole = start
        kept = whole + tail.rfind(b"\n") + 1
        if kept < size:
            disk.truncate(self.file, kept)
        return size - kept

    def _open_index(self) -> AskedIndex:
        """Open the index and count the lines that it lacks; if it is damaged, count the whole log again."""
        path = self.folder / INDEX
        with suppress(sqlite3.Error):
            return self._count_rest(AskedIndex(path))
        disk.remove(path)
        disk.remove(path.with_name(f"{INDEX}-journal"))
        try:
            return self._count_rest(AskedIndex(path))
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"the index cannot be written: {error}", str(path)) from error

    def _count_rest(self, index: AskedIndex) -> AskedIndex:
        """Count the lines that were written after the last one that the index has counted."""
        place = index.counted() or (0, 0, FIRST)
        try:
            if problem := _cut_problem(self.file, place):
                raise EvidenceError(problem)
            if self.file.is_file():
                for entry in read_log(self.folder, *place):
                    if number := entry.record.get("asked"):
                        failure = (entry.record.get("failure") or 0.0) / share_of(number)
                        index.ask(entry.record["picture"], entry.record["weights"], failure)
                    place = entry.end, entry.number, entry.digest
            index.keep(*place)
        except BaseException:
            index.close()
            raise
        self._place = place
        return index


def _refuse_links(folder: Path) -> None:
    """Raise an EvidenceError for a link in the place of a file: it would have a server write outside the folder."""
    for name in (LOG, INDEX, f"{INDEX}-journal", PICTURES):
        if (folder / name).is_symlink():
            raise EvidenceError(
                f"{folder / name} is a symbolic link. Put the file or folder itself there; the folder of all evidence "
                "may be a link."
            )


def cut_log(folder: Path) -> str:
    """Describe how a log was cut, by the lines that its index has counted; empty if it was not, or without an index."""
    index = folder / INDEX
    if not index.is_file():
        return ""
    try:
        counted = AskedIndex(index, read_only=True)
    except sqlite3.Error:
        return ""
    try:
        return _cut_problem(log_file(folder), counted.counted() or (0, 0, FIRST))
    except sqlite3.Error:
        return ""
    finally:
        counted.close()


def _cut_problem(file: Path, counted: tuple[int, int, str]) -> str:
    """Describe how a log was cut: it lacks the last line that an index has counted; empty if it was not."""
    size, lines, head = counted
    end = f',"digest":"{head}"}}\n'.encode()
    if not size:
        return ""
    if file.is_file():
        with file.open("rb") as stream:
            stream.seek(max(0, size - len(end)))
            if stream.read(len(end)) == end:
                return ""
    return (
        f"{file} was cut or replaced: it does not hold the last of the {lines:,} lines that {INDEX} beside it counted. "
        f"Restore it from a copy, or remove {INDEX} if it belongs to another log."
    )


def is_digest(value: Any) -> bool:
    """Return whether a value is a SHA-256 in hexadecimal digits."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def picture_file(folder: Path, digest: str) -> Path:
    """Return the file of a kept picture: its float32 pixels."""
    return folder / PICTURES / f"{digest}.f32"

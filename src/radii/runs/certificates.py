"""Certificate files: one line for each image in Cohen's columns, and a JSON header beside it on how it was made."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radii import disk
from radii.runs import readers
from radii.runs.certificate_format import (
    COLUMNS,
    ENVIRONMENTS,
    FORMAT,
    Row,
    first_checksum,
    identity,
    parse,
    parse_line,
    sealed,
    to_line,
)

__all__ = ["COLUMNS", "CertificateFile", "Certificates", "Row", "header_file", "read", "read_header", "rows_of"]


@dataclass(frozen=True)
class Certificates:
    """The rows of one certificate file and how they were made, as far as that is known."""

    name: str
    rows: Sequence[Row]
    header: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sigma(self) -> float | None:
        """The noise's, which may be another than that of the run's recipe."""
        found: float | None = self.header.get("noise", {}).get("sigma", self.header.get("sigma"))
        return found

    @property
    def certifier(self) -> str | None:
        return self.header.get("procedure")

    @property
    def parameters(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.header.get("parameters", {})
        return found

    @property
    def failure(self) -> float | None:
        """The probability that a certificate is wrong, where the header states it."""
        return self.parameters.get("failure")


class CertificateFile:
    """A certificate file that is being made: opened new, or to continue.

    `environment` is what affects rounding only, such as versions; where it changes, the header records it with the
    first row that it applies to.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], environment: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.header: dict[str, Any] = json.loads(json.dumps({**header, "format": FORMAT}))
        self._claim()
        self._repair()
        rows, self._checksum = self._parse()
        self._count = len(rows)
        self._noted: list[Mapping[str, Any]] = []
        if environment is not None:
            self._record(dict(environment), len(rows))

    def rows(self) -> list[Row]:
        """The certificates so far."""
        return self._parse()[0]

    def append(self, row: Row) -> None:
        """Add a certificate, the whole line in one write, so that a kill leaves whole lines."""
        self._note(row.environments)
        content = to_line(row)
        checksum = sealed(content, self._checksum)
        disk.append(self.path, f"{content}\t{checksum}\n".encode())
        self._checksum = checksum
        self._count += 1

    def _parse(self) -> tuple[list[Row], str]:
        start = first_checksum(self.header)
        rows, last = parse(self.path, readers.text(self.path, readers.MOST_CERTIFICATES, errors="replace"), start)
        return rows, last or start

    def _claim(self) -> None:
        beside = header_file(self.path)
        if beside.is_file():
            if other := difference(identity(read_header(beside)), self.header):
                raise ValueError(f"{self.path} was made with {other}: name another file, or move this one away")
        elif self.path.is_file():
            raise ValueError(f"{self.path} has no {beside.name} beside it that describes it: move it away")
        else:
            disk.make_folder(self.path.parent)
            disk.write_json(beside, self.header)

    def _record(self, environment: dict[str, Any], rows: int) -> None:
        """Record the environment of the next rows, unless it is that of the previous rows."""
        beside = header_file(self.path)
        before = read_header(beside).get(ENVIRONMENTS, [])
        noted = [each for each in before if each["first_row"] < rows]
        if not noted or {**noted[-1], "first_row": 0} != {**environment, "first_row": 0}:
            noted.append({**environment, "first_row": rows})
        if noted != before:
            disk.write_json(beside, {**self.header, ENVIRONMENTS: noted})

    def _note(self, environments: Sequence[Mapping[str, Any]]) -> None:
        """Record each environment of the workers once, with the first row that it computed or helped to compute."""
        if not (new := [each for each in environments if each not in self._noted]):
            return
        if not self._noted:
            self._record(dict(new.pop(0)), self._count)
        beside = header_file(self.path)
        if new:
            header = read_header(beside)
            header[ENVIRONMENTS] += [{**each, "first_row": self._count} for each in new]
            disk.write_json(beside, header)
        self._noted += [each for each in environments if each not in self._noted]

    def _repair(self) -> None:
        """Remove a line that a kill or a full disk left incomplete."""
        content = self.path.read_bytes() if self.path.is_file() else b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines(keepends=True)
        if not lines:
            disk.write(self.path, "\t".join(COLUMNS) + "\n")
            return
        if tuple(lines[0].decode(errors="replace").split()) != COLUMNS:
            raise ValueError(f"{self.path} does not have the columns {' '.join(COLUMNS)}: move it away")
        if len(lines) > 1 and not _readable(self.path, lines[-1].decode(errors="replace")):
            whole = whole[: -len(lines[-1])]
        if whole != content:
            disk.truncate(self.path, len(whole))


def read(path: Path) -> Certificates:
    """Read a certificate file in Cohen's columns, from any tool; a file with a header is checked against it."""
    name = path.name.removesuffix(".tsv")
    try:
        text = readers.text(path, readers.MOST_CERTIFICATES, "utf-8-sig", "replace")
    except OSError as error:
        raise ValueError(f"cannot read the certificate file {path}: {error.strerror}") from error
    if header_file(path).is_file():
        header = read_header(header_file(path))
        rows = rows_of(path, header)
    else:
        sigma = _sigma_in(path)
        header = {} if sigma is None else {"sigma": sigma}
        rows = parse(path, text)[0]
    if not rows:
        raise ValueError(f"{path} holds no certificates; `radii certify` makes and continues such files")
    return Certificates(name, rows, header)


def rows_of(path: Path, header: Mapping[str, Any]) -> list[Row]:
    """The rows of a certificate file with a header; an incomplete last line is ignored."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    text = text[: text.rfind("\n") + 1]
    if not text:
        return []
    if header.get("format", 1) >= FORMAT and tuple(text.split("\n", 1)[0].split("\t")) != COLUMNS:
        raise ValueError(f"{path} does not have the columns {' '.join(COLUMNS)}: restore the file, or certify again")
    return parse(path, text, first_checksum(header))[0]


def first_lines(path: Path) -> list[bytes]:
    """The head of a certificate file and its first row, as far as they are there and whole."""
    with path.open("rb") as file:
        return [line for line in (file.readline(1 << 16), file.readline(1 << 16)) if line.endswith(b"\n")]


def header_file(path: Path) -> Path:
    """The JSON beside a certificate file."""
    return path.with_name(path.name.removesuffix(".tsv") + ".json")


def read_header(path: Path) -> dict[str, Any]:
    """The content of the JSON beside a certificate file."""
    return readers.header(path)


def difference(theirs: Mapping[str, Any], wanted: Mapping[str, Any], table: str = "") -> str:
    """The first field in which two headers differ, as text; empty if they are the same."""
    for key in sorted(theirs.keys() | wanted.keys()):
        a, b = theirs.get(key), wanted.get(key)
        if a != b and isinstance(a, dict) and isinstance(b, dict):
            return difference(a, b, f"{table}{key}.")
        if a != b:
            return f"{table}{key} = {a!r}, not {b!r}"
    return ""


def _readable(path: Path, line: str) -> bool:
    try:
        parse_line(str(path), COLUMNS, line.rstrip("\n"))
    except ValueError:
        return False
    return True


def _sigma_in(path: Path) -> float | None:
    """The sigma in the name of a file from another tool, or of a folder above it."""
    for part in reversed(path.parts):
        if found := re.search(r"(?:sigma|noise)[-_=]?(\d+(?:\.\d+)?)", part, re.IGNORECASE):
            return float(found[1])
    return None

"""Write a certificate file: create it or continue it, append rows, and record environments in its header."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from radii import disk
from radii.fields import first_difference
from radii.runs import readers
from radii.runs.certificates import (
    COLUMNS,
    ENVIRONMENTS,
    FIRST_ROW,
    FORMAT,
    Row,
    check_environments,
    checksum,
    described,
    first_checksum,
    header_file,
    identity,
    parse,
    parse_line,
    read_header,
    recorded_difference,
    to_line,
    to_text,
    with_checksum,
)
from radii.runs.function import FUNCTION


class CertificateFile:
    """A certificate file that is being written: new, or continued.

    `environment` is what affects rounding only, such as versions. When it changes, the header records it with the first
    row that it applies to. `function` describes the certified function; a file is continued only if it recorded the
    same function up to rounding, or none.
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        environment: Mapping[str, Any] | None = None,
        function: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        recorded = {} if function is None else {FUNCTION: function}
        self.header: dict[str, Any] = json.loads(json.dumps({**header, "format": FORMAT, **recorded}))
        self._environments: list[Mapping[str, Any]] = self._open_header(environment)
        self._rows, self._checksum = self._open_rows()
        self._workers: list[Mapping[str, Any]] = []
        if environment is not None:
            self._record_environment(environment)

    def rows(self) -> list[Row]:
        """Return the certificates so far."""
        return list(self._rows)

    def append(self, row: Row) -> None:
        """Add a certificate, the whole line in one write, so that a kill leaves whole lines."""
        self._record_workers(row.environments)
        content = to_line(row)
        new = checksum(content, self._checksum)
        parsed = parse_line(str(self.path), COLUMNS, f"{content}\t{new}")  # a row that cannot be read is not written
        disk.append(self.path, f"{content}\t{new}\n".encode())
        self._checksum = new
        self._rows.append(parsed)

    def _open_header(self, environment: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
        """Write the header, or compare it with the one in the file; return the recorded environments."""
        file = header_file(self.path)
        if file.is_file():
            recorded = read_header(file)
            difference = first_difference(identity(recorded), identity(self.header))
            if difference := difference or recorded_difference(recorded, self.header.get(FUNCTION, {}), environment):
                raise ValueError(f"{self.path} was made with {difference}. Name another file, or move this one away.")
            self.header = {key: value for key, value in recorded.items() if key != ENVIRONMENTS}
            return list(recorded.get(ENVIRONMENTS, []))
        if self.path.is_file():
            raise ValueError(
                f"{self.path} has no header {file.name} beside it. Restore the header, or move the file away."
            )
        disk.make_folder(self.path.parent)
        self._write_header([])
        return []

    def _open_rows(self) -> tuple[list[Row], str]:
        """Read the rows and the last checksum; remove a line that a kill or a full disk left incomplete."""
        start = first_checksum(self.header)
        content = readers.content(self.path, readers.MOST_CERTIFICATES) if self.path.is_file() else b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines(keepends=True)
        if not lines:
            disk.write(self.path, to_text(self.header, []))
            return [], start
        if tuple(lines[0].decode(errors="replace").split()) != COLUMNS:
            raise ValueError(f"{self.path} does not have the columns {' '.join(COLUMNS)}. Move it away.")
        if len(lines) > 1 and not _is_row(lines[-1].decode(errors="replace")):
            whole = whole[: -len(lines[-1])]
        if whole != content:
            disk.truncate(self.path, len(whole))
        text = whole.decode(errors="replace")
        rows, last = parse(self.path, text, start)
        check_environments(self.path, {**self.header, ENVIRONMENTS: self._environments}, text)
        return rows, last or start

    def _record_environment(self, environment: Mapping[str, Any]) -> None:
        """Record the environment of the next row, unless it is that of the previous rows."""
        count = len(self._rows)
        environments = [recorded for recorded in self._environments if recorded[FIRST_ROW] < count]
        if not environments or described(environments[-1]) != environment:
            environments.append(with_checksum({**environment, FIRST_ROW: count}, self._checksum, environments))
        self._write_environments(environments)

    def _record_workers(self, environments: Sequence[Mapping[str, Any]]) -> None:
        """Record every environment of the workers once, with the first row that it helped to compute."""
        new = [environment for environment in environments if environment not in self._workers]
        if new and not self._workers:
            self._record_environment(new[0])
        environments = list(self._environments)
        for environment in new if self._workers else new[1:]:
            numbered = {**environment, FIRST_ROW: len(self._rows)}
            environments.append(with_checksum(numbered, self._checksum, environments))
        self._write_environments(environments)
        self._workers += new

    def _write_environments(self, environments: list[Mapping[str, Any]]) -> None:
        if environments != self._environments:
            self._write_header(environments)
            self._environments = environments

    def _write_header(self, environments: list[Mapping[str, Any]]) -> None:
        """Write the header; raise a ValueError for one that could not be read again."""
        file = header_file(self.path)
        header = {**self.header, **({ENVIRONMENTS: environments} if environments else {})}
        readers.check_header(file, header)
        content = disk.to_json(header)
        if len(content) > readers.MOST_TEXT:
            raise ValueError(f"{file} would be larger than {readers.MOST_TEXT:,} bytes. Use fewer kinds of machines.")
        disk.write(file, content)


def _is_row(line: str) -> bool:
    try:
        parse_line("", COLUMNS, line.rstrip("\n"))
    except ValueError:
        return False
    return True

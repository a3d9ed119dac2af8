"""Shards: a share of the images in a part file of its own, written by a command of its own, then merged into one."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radii import disk
from radii.disk import is_locked, locked
from radii.errors import ParameterError
from radii.runs.certificate_format import (
    COLUMNS,
    ENVIRONMENTS,
    Row,
    first_checksum,
    identity,
    sealed,
    to_line,
)
from radii.runs.certificates import difference, header_file, read_header, rows_of
from radii.runs.run import Run, RunError

OnMerged = Callable[[Path, Mapping[str, Any], Sequence[Row]], None]
SHARD = "shard"
"""The field of a part file's header that tells it from the merged file's."""


@dataclass(frozen=True)
class Shard:
    """One of `count` equal shares of the images, from 1 on."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        found = re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,8})", text, re.ASCII)
        if not found or int(found[1]) > int(found[2]):
            raise ParameterError(f"shard = {text!r}, expected a number and how many, such as 3/16, from 1/16 on", SHARD)
        return cls(int(found[1]), int(found[2]))

    def of(self, images: Sequence[int]) -> Sequence[int]:
        """Every `count`th image: neighbours, which may be alike and dear, are in different shards."""
        return images[self.number - 1 :: self.count]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def part_file(path: Path, shard: Shard) -> Path:
    """The part of a certificate file that a shard writes."""
    return path.parent / "parts" / f"{path.name.removesuffix('.tsv')}.{shard.number}-of-{shard.count}.tsv"


@dataclass(frozen=True)
class _Part:
    path: Path
    header: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def shard(self) -> Shard:
        return Shard.parse(str(self.header.get(SHARD, "")))

    @property
    def whole(self) -> dict[str, Any]:
        """The header of the merged file."""
        return {key: value for key, value in identity(self.header).items() if key != SHARD}

    def environment(self, row: int) -> dict[str, Any] | None:
        before = [each for each in self.header.get(ENVIRONMENTS, []) if each["first_row"] <= row]
        return {key: value for key, value in before[-1].items() if key != "first_row"} if before else None


def merge(run: Run, on_merged: OnMerged = lambda *_: None) -> list[Path]:
    """Merge the part files of a run into certificate files, one for each header: that of a run without shards.

    A set of parts with a gap, a doubled image or different headers is a RunError, after the whole sets are merged.
    `on_merged` is called with (file, header, rows) while the file is locked.
    """
    sets: dict[Path, list[_Part]] = {}
    for part in _parts(run):
        sets.setdefault(run.certificates / f"{part.path.name.rpartition('.')[0].rpartition('.')[0]}.tsv", []).append(
            part
        )
    if not sets:
        raise RunError(f"{run.path} has no part files: certify its shards first")
    problems = {path: _problem(parts, sets.values()) for path, parts in sets.items()}
    merged = [_merged(path, parts, on_merged) for path, parts in sets.items() if not problems[path]]
    if problem := next(filter(None, problems.values()), ""):
        raise RunError(problem)
    return merged


def _parts(run: Run) -> Iterator[_Part]:
    for path in sorted((run.certificates / "parts").glob("*.tsv")):
        if is_locked(path):
            raise RunError(f"{path} is being written: merge when every shard has ended")
        header = read_header(header_file(path))
        if missing := [name for name in (SHARD, "images", "every", "most") if name not in header]:
            raise RunError(f"{header_file(path)} has no {missing[0]!r}, as a part has: restore it, or move both away")
        yield _Part(path, header, rows_of(path, header))


def _problem(parts: Sequence[_Part], sets: Iterable[Sequence[_Part]]) -> str:
    """Why these parts are not one whole, as a sentence; empty if they are."""
    counts = sorted({part.shard.count for part in parts})
    if len(counts) > 1:
        return f"{parts[0].path.parent} has parts of {counts[0]} and of {counts[1]} shards: remove those of one"
    for part in parts:
        if different := difference(parts[0].whole, part.whole):
            return (
                f"{part.path} does not belong to {parts[0].path.name}, which has {different}: certify one of them again"
            )
        if problem := _wrong_name(part) or _wrong_images(part):
            return problem
    if missing := sorted(set(range(1, counts[0] + 1)) - {part.shard.number for part in parts}):
        return _gap(parts, missing, sets)
    return ""


def _wrong_name(part: _Part) -> str:
    """Why a part is not the one that its name says: a copy would be counted twice."""
    name = f"{part.shard.number}-of-{part.shard.count}"
    stem, _, own = part.path.stem.rpartition(".")
    home = part.path.with_name(f"{stem}.{name}.tsv")
    return "" if own == name else f"{part.path} holds shard {part.shard}, which is in {home}: move it away"


def _wrong_images(part: _Part) -> str:
    expected, found = list(part.shard.of(_chosen(part.header))), [row.index for row in part.rows]
    if found == expected[: len(found)]:
        done = len(found) == len(expected)
        return (
            "" if done else f"{part.path} has {len(found)} of its {len(expected)} images: certify shard {part.shard} on"
        )
    other = next((index for index in found if index not in set(expected)), found[0])
    return f"{part.path} has image {other} out of order, or of another shard: certify shard {part.shard} again"


def _gap(parts: Sequence[_Part], missing: Sequence[int], sets: Iterable[Sequence[_Part]]) -> str:
    count, names = parts[0].shard.count, ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
    gap = f"shards {names} of {count} are missing beside {parts[0].path}"
    for others in sets:
        if {each.shard for each in others} & {Shard(number, count) for number in missing}:
            return f"{gap}, which has {difference(parts[0].whole, others[0].whole)} as {others[0].path} has"
    return f"{gap}: certify them"


def _chosen(header: Mapping[str, Any]) -> Sequence[int]:
    return range(0, header["images"], header["every"])[: header["most"]]


def _merged(path: Path, parts: Sequence[_Part], on_merged: OnMerged) -> Path:
    found = {row.index: (row, part.environment(place)) for part in parts for place, row in enumerate(part.rows)}
    order = [found[index] for index in _chosen(parts[0].header)]
    header = parts[0].whole
    with locked(path.parent, wait=True), locked(path):
        _refuse_another(path, header, [row for row, _ in order])
        disk.write_json(header_file(path), {**header, ENVIRONMENTS: _environments([each for _, each in order])})
        disk.write(path, _text(header, [row for row, _ in order]))
        on_merged(path, header, [row for row, _ in order])
    return path


def _environments(of_rows: Sequence[dict[str, Any] | None]) -> list[dict[str, Any]]:
    """Each environment once, with the first row that it computed."""
    noted: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for place, environment in enumerate(of_rows):
        if environment is not None and environment not in known:
            known.append(environment)
            noted.append({**environment, "first_row": place})
    return noted


def _text(header: Mapping[str, Any], rows: Sequence[Row]) -> str:
    lines, before = ["\t".join(COLUMNS)], first_checksum(header)
    for row in rows:
        content = to_line(row)
        before = sealed(content, before)
        lines.append(f"{content}\t{before}")
    return "\n".join(lines) + "\n"


def _refuse_another(path: Path, header: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Refuse to replace certificates that are not those of the parts; times may differ."""
    if not path.is_file():
        return
    answers = {row.index: (row.prediction, row.radius, row.samples, dict(row.counts)) for row in rows}
    for row in rows_of(path, header):
        if answers.get(row.index) != (row.prediction, row.radius, row.samples, dict(row.counts)):
            raise RunError(f"{path} has another certificate of image {row.index} than the parts: move it away")

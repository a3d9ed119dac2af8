"""Shards: certify shares of the images in separate commands, one part file each, and merge the part files."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii import disk
from radii.disk import is_locked, locked
from radii.errors import ParameterError, RunError
from radii.fields import first_difference
from radii.runs.certificates import (
    ENVIRONMENTS,
    FIRST_ROW,
    Row,
    described,
    first_checksum,
    header_file,
    identity,
    read_header,
    read_rows,
    recorded_difference,
    to_text,
    with_checksum,
)
from radii.runs.function import FUNCTION

if TYPE_CHECKING:
    from radii.runs.run import Run

OnMerged = Callable[[Path, Mapping[str, Any], Sequence[Row]], None]
SHARD = "shard"
"""The header field that marks a part file."""


@dataclass(frozen=True)
class Shard:
    """One of `count` equal shares of the images, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse a shard such as 3/16."""
        match = re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,8})", text, re.ASCII)
        if not match or int(match[1]) > int(match[2]):
            raise ParameterError(
                f"shard = {text!r} is not a shard. Write NUMBER/COUNT, such as 3/16, from 1/16 to 16/16.", SHARD
            )
        return cls(int(match[1]), int(match[2]))

    def of(self, images: Sequence[int]) -> Sequence[int]:
        """Return every `count`th image. Neighbours may be alike and expensive, so they go to different shards."""
        return images[self.number - 1 :: self.count]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def part_file(path: Path, shard: Shard) -> Path:
    """Return the file that a shard writes for a certificate file."""
    return path.parent / "parts" / f"{path.name.removesuffix('.tsv')}.{_suffix(shard)}.tsv"


def _suffix(shard: Shard) -> str:
    return f"{shard.number}-of-{shard.count}"


@dataclass(frozen=True)
class _Part:
    path: Path
    header: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def shard(self) -> Shard:
        return Shard.parse(str(self.header.get(SHARD, "")))

    @property
    def merged_file(self) -> Path:
        return self.path.parents[1] / f"{self.path.stem.rpartition('.')[0]}.tsv"

    @property
    def merged_header(self) -> dict[str, Any]:
        return {key: value for key, value in self.header.items() if key not in (SHARD, ENVIRONMENTS)}

    @property
    def function(self) -> Mapping[str, Any]:
        function: Mapping[str, Any] = self.header.get(FUNCTION, {})
        return function

    @property
    def all_images(self) -> Sequence[int]:
        """The images of all shards together."""
        return range(0, self.header["images"], self.header["every"])[: self.header["most"]]

    def environment(self, row: int) -> dict[str, Any] | None:
        earlier = [recorded for recorded in self.header.get(ENVIRONMENTS, []) if recorded[FIRST_ROW] <= row]
        return described(earlier[-1]) if earlier else None


def merge(run: "Run", on_merged: OnMerged = lambda *_: None) -> list[Path]:
    """Merge the part files of a run into certificate files, one for each header, as certified without shards.

    Parts with a missing shard, a wrong image or different headers are a RunError, raised after all complete sets are
    merged. `on_merged` is called with (file, header, rows) while the file is locked.
    """
    sets: dict[Path, list[_Part]] = {}
    for part in _read_parts(run):
        sets.setdefault(part.merged_file, []).append(part)
    if not sets:
        raise RunError(f"{run.path} has no part files. Certify its shards first.")
    problems = {path: _problem(parts, sets.values()) for path, parts in sets.items()}
    merged = [_write_merged(path, parts, on_merged) for path, parts in sets.items() if not problems[path]]
    if problem := next(filter(None, problems.values()), ""):
        raise RunError(problem)
    return merged


def _read_parts(run: "Run") -> Iterator[_Part]:
    for path in sorted((run.certificates / "parts").glob("*.tsv")):
        if is_locked(path):
            raise RunError(f"{path} is being written. Merge when every shard has ended.")
        header = read_header(header_file(path))
        if missing := [name for name in (SHARD, "images", "every", "most") if name not in header]:
            raise RunError(f"{header_file(path)} has no {missing[0]!r}. Restore it, or move it and {path.name} away.")
        yield _Part(path, header, read_rows(path, header))


def _problem(parts: Sequence[_Part], sets: Iterable[Sequence[_Part]]) -> str:
    """Describe why these parts cannot be merged; empty if they can."""
    first = parts[0]
    counts = sorted({part.shard.count for part in parts})
    if len(counts) > 1:
        return (
            f"{first.path.parent} has parts of {counts[0]} and of {counts[1]} shards. Remove the parts of one of them."
        )
    for part in parts:
        difference = first_difference(identity(first.merged_header), identity(part.merged_header))
        if difference := difference or recorded_difference(first.header, part.function, part.environment(0)):
            mismatch = f"{part.path} does not belong to {first.path.name}, which has {difference}"
            return f"{mismatch}. Certify one of them again."
        if problem := _name_problem(part) or _images_problem(part):
            return problem
    if missing := sorted(set(range(1, counts[0] + 1)) - {part.shard.number for part in parts}):
        return _missing_shards(first, missing, sets)
    return ""


def _name_problem(part: _Part) -> str:
    """Describe a part file that is named as another shard, since a copy would count twice; empty if there is none."""
    stem, _, suffix = part.path.stem.rpartition(".")
    if suffix == _suffix(part.shard):
        return ""
    expected = part.path.with_name(f"{stem}.{_suffix(part.shard)}.tsv")
    return f"{part.path} holds shard {part.shard}, whose file is {expected}. Move it away."


def _images_problem(part: _Part) -> str:
    expected, images = list(part.shard.of(part.all_images)), [row.index for row in part.rows]
    if images == expected:
        return ""
    if images == expected[: len(images)]:
        return f"{part.path} has {len(images)} of its {len(expected)} images. Continue to certify shard {part.shard}."
    wrong = next((index for index in images if index not in set(expected)), images[0])
    return f"{part.path} has image {wrong} out of order, or from another shard. Certify shard {part.shard} again."


def _missing_shards(first: _Part, missing: Sequence[int], sets: Iterable[Sequence[_Part]]) -> str:
    count, names = first.shard.count, ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
    problem = f"Shards {names} of {count} are missing beside {first.path}"
    for others in sets:  # a shard that was certified with another setting is in another set
        if {part.shard for part in others} & {Shard(number, count) for number in missing}:
            difference = first_difference(identity(first.merged_header), identity(others[0].merged_header))
            return f"{problem}, which has {difference} as {others[0].path} has. Certify them with the same settings."
    return f"{problem}. Certify them."


def _write_merged(path: Path, parts: Sequence[_Part], on_merged: OnMerged) -> Path:
    by_image = {row.index: (row, part.environment(number)) for part in parts for number, row in enumerate(part.rows)}
    header, images = parts[0].merged_header, parts[0].all_images
    rows = [by_image[index][0] for index in images]
    text = to_text(header, rows)
    lines = [first_checksum(header), *(line.rpartition("\t")[2] for line in text.splitlines()[1:])]
    environments: list[dict[str, Any]] = []  # each once, with the first row that it computed
    for number, index in enumerate(images):
        environment = by_image[index][1]
        if environment is not None and environment not in map(described, environments):
            environments.append(with_checksum({**environment, FIRST_ROW: number}, lines[number], environments))
    with locked(path.parent, wait=True), locked(path):
        _check_unchanged(path, rows)
        disk.write_json(header_file(path), {**header, ENVIRONMENTS: environments})
        disk.write(path, text)
        on_merged(path, header, rows)
    return path


def _check_unchanged(path: Path, rows: Sequence[Row]) -> None:
    """Refuse to replace certificates that differ from those of the parts; times may differ."""
    merged = {row.index: (row.prediction, row.radius, row.samples, row.counts) for row in rows}
    for row in read_rows(path, read_header(header_file(path))) if path.is_file() else ():
        if merged.get(row.index) != (row.prediction, row.radius, row.samples, row.counts):
            raise RunError(f"{path} has another certificate of image {row.index} than the parts. Move it away.")

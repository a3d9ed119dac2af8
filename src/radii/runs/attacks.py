"""Attack files: a header that states how a smoothed classifier was attacked, then one line for each image, in JSON."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from radii import disk
from radii.disk import locked
from radii.runs import readers
from radii.runs.certificates import ENVIRONMENTS, described, identity, recorded_difference
from radii.runs.function import FUNCTION
from radii.runs.readers import Fields, is_count, is_integer, is_number, is_object, is_text
from radii.runs.run import Run, RunError
from radii.smoothing.certificate import ABSTAIN

FORMAT = 1


def _is_distance(value: Any) -> bool:
    return value is None or (is_number(value) and 0 <= value <= readers.MOST_RADIUS)


def _are_radii(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_distance(radius) and radius for radius in value)


HEADER: Fields = {
    "format": (is_count, "a whole number >= 1"),
    "weights": (is_text, "a digest"),
    "data": (is_text, "a digest"),
    "engine": (is_text, "a name"),
    "noise": (is_object, "an object"),
    "steps": (is_count, "a whole number >= 1"),
    "copies": (is_count, "a whole number >= 1"),
    "samples": (is_count, "a whole number >= 1"),
    "radii": (_are_radii, "a list of numbers above 0"),
    "seed": (is_integer, "a whole number"),
    "images": (lambda value: isinstance(value, list) and all(map(is_integer, value)), "a list of whole numbers"),
}
ROW: Fields = {
    "index": (is_integer, "a whole number"),
    "label": (is_integer, "a whole number"),
    "prediction": (is_integer, "a whole number"),
    "distance": (_is_distance, "a number >= 0, or null"),
    "wrong": (lambda value: value is None or is_integer(value), "a whole number, or null"),
    "seconds": (is_number, "seconds"),
    "digest": (is_text, "a digest"),
}


@dataclass(frozen=True)
class AttackedImage:
    """The outcome of an attack on one image."""

    index: int
    label: int
    prediction: int
    """The prediction without an attack; ABSTAIN if the vote is too close."""
    distance: float | None
    """The length, in the norm of the noise, of the smallest change that gave a wrong answer; None if no change did."""
    wrong: int | None
    """That wrong answer."""
    seconds: float
    digest: str
    """Digest of the image's pixels and its label, as in certificate files."""


@dataclass(frozen=True)
class Attack:
    """The header and the rows of one attack file."""

    header: Mapping[str, Any]
    rows: Sequence[AttackedImage]

    @property
    def largest(self) -> float:
        """The largest radius that was tried."""
        return float(max(self.header["radii"]))

    def resisted(self, radius: float) -> tuple[int, int]:
        """Return how many images kept a right answer within a radius, and how many were attacked.

        An abstention counts as an error at every radius, as in certified accuracy.
        """
        answered = [row for row in self.rows if row.prediction != ABSTAIN]
        return sum(row.distance is None or row.distance > radius for row in answered), len(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[AttackedImage]:
        return iter(self.rows)

    def accuracy(self, radius: float) -> float:
        """Return the share of images that kept a right answer within a radius: an upper bound of robust accuracy."""
        if not 0 <= radius <= self.largest:
            raise ValueError(f"radius = {radius}, expected a number from 0 to {self.largest:g}, the largest tried")
        resisted, images = self.resisted(radius)
        return resisted / images

    @property
    def abstained(self) -> int:
        """The number of images on which the classifier abstains without an attack."""
        return sum(row.prediction == ABSTAIN for row in self.rows)


class AttackFile:
    """An attack file that is being written: new, or continued by the same function."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        if not path.is_file():
            disk.write(path, json.dumps(header, sort_keys=True) + "\n")
        environment: dict[str, Any] = next(iter(header.get(ENVIRONMENTS, [])), {})
        if difference := recorded_difference(read(path).header, header.get(FUNCTION, {}), described(environment)):
            raise RunError(f"{path} was made with {difference}. Restore the run, or remove that file.")
        content = readers.content(path, readers.MOST_CERTIFICATES)
        if not content.endswith(b"\n"):  # a kill left the last line incomplete
            disk.truncate(path, content.rfind(b"\n") + 1)
        self.rows = list(read(path).rows)

    def append(self, row: AttackedImage) -> None:
        """Append the row of an image, the whole line in one write."""
        disk.append(self.path, json.dumps(asdict(row)).encode() + b"\n")
        self.rows.append(row)


@contextmanager
def open_file(run: Run, header: Mapping[str, Any]) -> Iterator[AttackFile]:
    """Open the attack file of a run for this header, new or continued, and lock it."""
    path, header = file_of(run, header), {**header, "format": FORMAT}
    disk.make_folder(path.parent)
    with locked(path):
        disk.sweep(path.parent, [path.name, pictures_file(path).name])
        yield AttackFile(path, header)


def file_of(run: Run, header: Mapping[str, Any]) -> Path:
    """Return the attack file of a run for this header."""
    settings = {**identity(header), "format": FORMAT}
    name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    return run.path / "attacks" / f"attack-{name}.jsonl"


def pictures_file(path: Path) -> Path:
    """Return the file with the pictures of an attack."""
    return path.with_suffix(".safetensors")


def read(path: Path) -> Attack:
    """Read an attack file; ignore an incomplete last line, and raise a ValueError for any other invalid line."""
    text = readers.text(path, readers.MOST_CERTIFICATES, errors="replace")
    lines = text[: text.rfind("\n") + 1].splitlines()
    if not lines:
        raise ValueError(f"{path} is empty. Remove it.")
    header = _parse(f"{path}, line 1", lines[0], HEADER)
    readers.check_fields(f"{path}, line 1: ", header, {name: readers.HEADER[name] for name in (FUNCTION, ENVIRONMENTS)})
    tables = [_parse(f"{path}, line {number}", line, ROW) for number, line in enumerate(lines[1:], start=2)]
    rows = [AttackedImage(**{name: table[name] for name in ROW}) for table in tables]
    if len({row.index for row in rows}) < len(rows):
        raise ValueError(f"{path} has an image twice. Restore the file, or remove it.")
    return Attack(header, rows)


def read_all(run: Run) -> dict[Path, Attack]:
    """Read the attack files of a run."""
    return {path: read(path) for path in sorted((run.path / "attacks").glob("*.jsonl"))}


def _parse(where: str, line: str, fields: Fields) -> dict[str, Any]:
    table = readers.parse_object(line, where)
    readers.check_fields(f"{where}: ", table, fields, required=True)
    return table

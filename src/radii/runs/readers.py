"""Readers of the files of a run, with limits and checks: a run may come from an untrusted source.

Every error names the file and is a ValueError or an OSError.
"""

import csv
import io
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii.runs.kinds import (
    HEADER,
    HISTORY,
    MOST_SECONDS,
    MOST_WHOLE,
    TRANSFER,
    TRANSFER_TIMES,
    Check,
    is_count,
    is_integer,
    is_path,
    is_share,
    is_text,
)

MOST_TEXT = 1 << 24
"""Bytes of a JSON, CSV or TOML file."""
MOST_CERTIFICATES = 1 << 28
"""Bytes of a certificate file."""
MOST_HEADER = 1 << 24
"""Bytes of a safetensors header."""
MOST_DIGITS = 40
"""Digits of a whole number in JSON: seeds of 128 bits have 39."""
MOST_RADIUS = 1000.0
"""The longest distance in an image of a million pixels in [0, 1]; a table has a column for every quarter."""


def content(path: Path, most: int) -> bytes:
    """The bytes of a file of no more than `most`."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file: move it away")
    with path.open("rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for such a file: it was not written by radii")
    return found


def text(path: Path, most: int = MOST_TEXT, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text of a file of no more than `most` bytes."""
    found = content(path, most)
    try:
        return found.decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text (byte {error.start} is not UTF-8): restore it") from error


def json_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    return parse_object(text(path), str(path))


def parse_object(content: str, where: str) -> dict[str, Any]:
    """The object of a JSON text; `where` names the file."""
    try:
        found = json.loads(content, parse_int=_json_integer, parse_constant=_json_constant)
    except RecursionError as error:
        raise ValueError(f"{where} is nested too deeply: restore it, or move it away") from error
    except ValueError as error:
        raise ValueError(f"{where} is not JSON ({short(error)}): restore it, or move it away") from error
    if not isinstance(found, dict):
        raise ValueError(f"{where} does not hold a JSON object: restore it, or move it away")
    return found


def header(path: Path) -> dict[str, Any]:
    """The header of a certificate file; known fields are checked, others are kept as they are."""
    found = json_object(path)
    _expect(path, found, HEADER)
    _expect(path, found.get("parameters", {}), {"failure": (is_share, "a number between 0 and 1")}, "parameters.")
    _expect(path, found.get("noise", {}), {"name": (is_text, "a name"), "sigma": HEADER["sigma"]}, "noise.")
    return found


def origin(path: Path) -> dict[str, dict[str, str]]:
    """What a run was trained from: paths with hashes."""
    found = json_object(path)
    for key, facts in found.items():
        if not (isinstance(facts, dict) and is_path(facts.get("path")) and isinstance(facts.get("hash"), str)):
            raise ValueError(f"{path}: {key} = {_shown(facts)}, expected an object with a path and a hash")
    return found


def transfer_cost(path: Path) -> dict[str, Any]:
    """The cost of a teacher's method: transfer.json."""
    found = json_object(path)
    if missing := [name for name in TRANSFER if name not in found]:
        raise ValueError(f"{path} has no {missing[0]!r}: restore it, or remove it")
    _expect(path, found, TRANSFER | TRANSFER_TIMES)
    return found


def check(path: Path) -> dict[str, int]:
    """How many of how many test images a model got right without noise: check.json."""
    found = json_object(path)
    right: Any = found.get("right")
    images: Any = found.get("images")
    if not (is_integer(right) and is_count(images) and 0 <= right <= images):
        raise ValueError(f"{path} holds {_shown(found)}, expected the images and how many are right: remove it")
    return {"right": right, "images": images}


def doubles(path: Path) -> list[float]:
    """The numbers of a file of little-endian doubles; an incomplete last one is ignored."""
    found = content(path, MOST_CERTIFICATES)
    return list(struct.unpack(f"<{len(found) // 8}d", found[: len(found) // 8 * 8]))


def history(path: Path) -> list[dict[str, str]]:
    """The rows of training.csv, all with the same columns; time and accuracy are checked numbers."""
    try:
        rows = list(csv.DictReader(io.StringIO(text(path), newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"{path} is not CSV ({error}): restore it, or remove it") from error
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise ValueError(f"{path}, line {number} does not have the cells of the first: restore it, or remove it")
        for name, (check, expected) in HISTORY.items():
            if (name in row or name == "seconds") and not check(_number(row.get(name, ""))):
                raise ValueError(f"{path}, line {number}: {name} = {_shown(row.get(name))}, expected {expected}")
    return rows


def weights_metadata(path: Path) -> dict[str, Any]:
    """The metadata in the header of a safetensors file, read without torch."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > min(MOST_HEADER, path.stat().st_size):
            raise ValueError(f"{path} has a header of {size:,} bytes, more than a model's: it is truncated or corrupt")
        content = file.read(size)
    found = parse_object(content.decode(errors="replace"), f"the header of {path}").get("__metadata__", {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"the header of {path} has metadata that is not text: it is corrupt")
    return found


def class_names(path: Path) -> tuple[str, ...]:
    """The names of the classes stored with the weights; none in a file of version 0.1."""
    spec = weights_metadata(path).get("spec")
    names = parse_object(spec, f"the spec in {path}").get("class_names") if spec is not None else []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"the spec in {path} has class_names = {_shown(names)}, expected a list of texts")
    return tuple(names)


def whole(cell: str) -> int:
    """A whole number of a certificate, of any sign."""
    if len(cell) > MOST_DIGITS or abs(found := int(cell)) > MOST_WHOLE:
        raise ValueError(f"{_shown(cell)} is too large")
    return found


def seconds(cell: str) -> float:
    """Seconds of a plain number or of Python's `1 day, 0:00:14.649345`."""
    days, comma, clock = cell.rpartition(",")
    parts = [float(part) for part in clock.split(":")]
    words = days.split()
    if len(parts) not in (1, 3) or bool(comma) != bool(words):
        raise ValueError(f"time {_shown(cell)}")
    hours, minutes, rest = parts if len(parts) == 3 else (0.0, 0.0, parts[0])
    found = 86_400 * (whole(words[0]) if words else 0) + 3600 * hours + 60 * minutes + rest
    if not abs(found) <= MOST_SECONDS:
        raise ValueError(f"time {_shown(cell)}, expected seconds")
    return found


def _json_integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _json_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _expect(path: Path, found: Mapping[str, Any], known: Mapping[str, tuple[Check, str]], table: str = "") -> None:
    for name, (check, expected) in known.items():
        if name in found and not check(found[name]):
            raise ValueError(f"{path}: {table}{name} = {_shown(found[name])}, expected {expected}")


def _shown(value: Any) -> str:
    """A value for an error message, shortened."""
    return short(repr(value), 80)


def short(content: object, most: int = 300) -> str:
    """Text of a file for an error message: shortened, without control characters."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in str(content)[:most])
    return plain if len(str(content)) <= most else f"{plain} ..."

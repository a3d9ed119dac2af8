"""Readers for the files of a run, with limits and checks: a run may come from an untrusted source.

Every error names the file and is a ValueError or an OSError.
"""

import csv
import io
import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from radii.smoothing.norms import NORMS

MOST_TEXT = 1 << 24
"""Bytes of a JSON, CSV or TOML file."""
MOST_CERTIFICATES = 1 << 30
"""Bytes of a certificate file: 50,000 images of 1,000 classes, all of which got votes, need 400 MB."""
MOST_LINE = 1 << 20
"""Characters of a line in it."""
MOST_HEADER = 1 << 24
"""Bytes of a safetensors header."""
MOST_DIGITS = 40
"""Digits of a whole number in JSON: seeds of 128 bits have 39."""
MOST_WHOLE = 10**15
MOST_SAMPLES = 10**9
"""Samples for one image."""
MOST_LISTED = 1000
"""Radii and other values in a list of a certifier's parameters."""
MOST_SECONDS = 1e10
MOST_RADIUS = 1000.0
"""The longest distance in an image of a million pixels in [0, 1]; a table has a column for every quarter."""
MOST_BATCH = 1 << 20
"""Images of a forward pass."""
MOST_PATH, MOST_NAME = 4096, 255
"""Bytes of a path, and of a name in it."""
SPLITS = ("train", "validation", "test", "given")
"""What certificates may be about: a split of a dataset, or images that a program passed."""


# Bytes, text and JSON


def content(path: Path, most: int) -> bytes:
    """Read a file of at most `most` bytes."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file: move it away")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for such a file: it was not written by radii")
    return data


def text(path: Path, most: int = MOST_TEXT, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Read a text file of at most `most` bytes."""
    data = content(path, most)
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text (byte {error.start} is not UTF-8): restore it") from error


def json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    return parse_object(text(path), str(path))


def parse_object(content: str, where: str) -> dict[str, Any]:
    """Parse the text of a JSON object; `where` names the file in errors."""
    try:
        value = json.loads(content, parse_int=_parse_integer, parse_float=_parse_float, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError(f"{where} is nested too deeply: restore it, or move it away") from error
    except ValueError as error:
        raise ValueError(f"{where} is not JSON ({short(error)}): restore it, or move it away") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where} does not hold a JSON object: restore it, or move it away")
    return value


def _parse_integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _parse_float(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{short(digits)} is too large for a number")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def short(value: object, most: int = 300) -> str:
    """Shorten text from a file for an error message, and replace control characters."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in str(value)[:most])
    return plain if len(str(value)) <= most else f"{plain} ..."


def short_repr(value: Any) -> str:
    """Shorten the repr of a value from a file for an error message."""
    return short(repr(value), 80)


# Checks of fields: each with what it expects, in words

Fields = Mapping[str, tuple[Callable[[Any], bool], str]]
"""For each field a check and what it expects."""


def check_fields(where: str, table: Mapping[str, Any], fields: Fields, *, required: bool = False) -> None:
    """Raise a ValueError for the first field with a wrong value; fields may be missing unless `required`."""
    for name, (is_valid, expected) in fields.items():
        if not is_valid(table[name]) if name in table else required:
            got = short_repr(table.get(name))
            raise ValueError(f"{where}{name} = {got}, expected {expected}: restore the file, or move it away")


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return is_integer(value) and 0 < value <= MOST_WHOLE


def is_number(value: Any) -> bool:
    return (is_integer(value) or isinstance(value, float)) and abs(value) <= MOST_WHOLE


def is_duration(value: Any) -> bool:
    return is_number(value) and 0 < value <= MOST_SECONDS


def is_path(value: Any) -> bool:
    """Return whether a text can be a path at all: the system's errors for others name no file."""
    if not isinstance(value, str) or "\0" in value or len(value.encode(errors="replace")) > MOST_PATH:
        return False
    return all(len(part.encode(errors="replace")) <= MOST_NAME for part in Path(value).parts)


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_environments(value: Any) -> bool:
    return isinstance(value, list) and all(
        is_environment(environment) and is_integer(environment.get("first_row")) for environment in value
    )


def is_environment(value: Any) -> bool:
    """Return whether a header can hold this environment."""
    return is_object(value) and _is_batch_size(value.get("batch_size", 1)) and is_object(value.get("tf32", {}))


def _is_batch_size(value: Any) -> bool:
    return is_count(value) and value <= MOST_BATCH


def _is_function(value: Any) -> bool:
    rows = value.get("logits", []) if is_object(value) else None
    good = isinstance(rows, list) and all(isinstance(row, list) and all(map(is_number, row)) for row in rows)
    return good and is_text(value.get("model", ""))


def _is_origin_of_update(value: Any) -> bool:
    texts = is_object(value) and is_path(value.get("file")) and is_text(value.get("digest"))
    return texts and is_count(value.get("links")) and is_number(value.get("failure"))


def _are_polynomials(value: Any) -> bool:
    lists = value.values() if is_object(value) else [None]
    return all(isinstance(numbers, list) and all(map(is_number, numbers)) for numbers in lists)


HEADER: Fields = {
    "procedure": (is_text, "a name"),
    "parameters": (is_object, "an object"),
    "noise": (is_object, "an object"),
    "norm": (lambda value: is_text(value) and value in NORMS, f"one of {', '.join(NORMS)}"),
    "sigma": (lambda value: value is None or (is_number(value) and value > 0), "a number above 0"),
    "seed": (is_integer, "a whole number"),
    "images": (is_count, "a whole number >= 1"),
    "every": (is_count, "a whole number >= 1"),
    "most": (lambda value: value is None or is_count(value), "a whole number >= 1, or null"),
    "dataset": (is_text, "a name"),
    "split": (lambda value: value in SPLITS, f"one of {', '.join(SPLITS)}"),
    "validation": (is_count, "a whole number >= 1"),
    "evaluated_on": (lambda value: is_object(value) and is_text(value.get("name")), "an object with a name"),
    "label_known": (lambda value: isinstance(value, bool), "true or false"),
    "engine": (is_text, "a name"),
    "device": (is_text, "a name"),
    "format": (is_count, "a whole number >= 1"),
    "weights": (is_text, "a text"),
    "data": (is_text, "a text"),
    "code": (lambda value: is_object(value) and all(map(_is_text_or_none, value.values())), "an object of texts"),
    "artefact": (_is_text_or_none, "a text or null"),
    "batch_size": (_is_batch_size, f"a whole number from 1 to {MOST_BATCH}"),
    "stream": (is_text, "a name"),
    "from": (_is_origin_of_update, "an object that names certificates"),
    "kind": (lambda value: value == "population", "population"),
    "polynomials": (_are_polynomials, "lists of numbers by radius"),
    "function": (_is_function, "an object with a model and rows of logits"),
    "environments": (_are_environments, "a list of objects with a first_row"),
}
PARAMETERS: Fields = {"failure": (lambda value: is_number(value) and 0 < value < 1, "a number between 0 and 1")}
NOISE: Fields = {"name": (is_text, "a name"), "sigma": HEADER["sigma"]}
TRANSFER: Fields = {
    "method": (is_text, "a name"),
    "method_seconds_per_epoch": (is_duration, "seconds"),
    "steps_timed": (is_count, "a whole number >= 1"),
}
TRANSFER_TIMES: Fields = {
    "seconds_before": (
        lambda value: is_object(value) and all(time is None or is_duration(time) for time in value.values()),
        "an object of seconds",
    ),
}
"""Stated since version 0.2."""
HISTORY: Fields = {
    "seconds": (is_duration, "a time above 0"),
    "core_seconds": (is_duration, "a time above 0"),
    "noisy_test_accuracy": (lambda value: 0 <= value <= 1, "a share"),
}


# The files of a run


def header(path: Path) -> dict[str, Any]:
    """Read the header of a certificate file. Known fields are checked, others are kept as they are."""
    return check_header(path, json_object(path))


def check_header(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return the header of a certificate file, or raise a ValueError for a field that cannot be read."""
    check_fields(f"{path}: ", table, HEADER)
    check_smoothing(f"{path}: ", table)
    return table


def check_smoothing(where: str, table: Mapping[str, Any]) -> None:
    """Raise a ValueError for parameters of a certifier, or of a noise, that cannot be used."""
    parameters = table.get("parameters", {})
    check_fields(f"{where}parameters.", parameters, PARAMETERS)
    for name, value in parameters.items():
        if isinstance(value, list) and len(value) > MOST_LISTED:
            raise ValueError(f"{where}parameters.{short(name, 80)} lists {len(value)} values, {MOST_LISTED} at most")
        if is_integer(value) and value > MOST_SAMPLES:
            raise ValueError(f"{where}parameters.{short(name, 80)} = {value}, expected at most {MOST_SAMPLES}")
    check_fields(f"{where}noise.", table.get("noise", {}), NOISE)


def origin(path: Path) -> dict[str, dict[str, str]]:
    """Read origin.json, the paths and hashes of what a run was trained from."""
    table = json_object(path)
    for key, source in table.items():
        if not (is_object(source) and is_path(source.get("path")) and is_text(source.get("hash"))):
            raise ValueError(f"{path}: {key} = {short_repr(source)}, expected an object with a path and a hash")
    return table


def transfer_cost(path: Path) -> dict[str, Any]:
    """Read transfer.json, the cost of a teacher's method."""
    table = json_object(path)
    if missing := [name for name in TRANSFER if name not in table]:
        raise ValueError(f"{path} has no {missing[0]!r}: restore it, or remove it")
    check_fields(f"{path}: ", table, {**TRANSFER, **TRANSFER_TIMES})
    return table


def check(path: Path) -> dict[str, Any]:
    """Read check.json: how many of how many test images a model got right, without noise and under noise."""
    table = json_object(path)
    noisy = table.get("noisy", [])
    parts = [table, *noisy] if isinstance(noisy, list) and len(noisy) <= MOST_LISTED else []
    if not parts or not all(map(_are_right, parts)) or not all(is_sigma(part.get("sigma")) for part in parts[1:]):
        raise ValueError(f"{path} holds {short_repr(table)}, expected the images and how many are right: remove it")
    return {"right": table["right"], "images": table["images"], "noisy": noisy, "weights": table.get("weights")}


def _are_right(part: Any) -> bool:
    """Return whether a part of check.json states the images and how many are right."""
    if not isinstance(part, dict):
        return False
    right: Any = part.get("right")
    images: Any = part.get("images")
    return is_integer(right) and is_count(images) and 0 <= right <= images


def is_sigma(value: Any) -> bool:
    return is_number(value) and 0 < value <= MOST_RADIUS


def history(path: Path) -> list[dict[str, str]]:
    """Read training.csv: rows with the same columns, and times and accuracies that are numbers in range."""
    try:
        rows = list(csv.DictReader(io.StringIO(text(path), newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"{path} is not CSV ({error}): restore it, or remove it") from error
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise ValueError(f"{path}, line {number} does not have the cells of the first: restore it, or remove it")
        for name, (is_valid, expected) in HISTORY.items():
            if (name in row or name == "seconds") and not is_valid(number_in(row.get(name, ""))):
                raise ValueError(f"{path}, line {number}: {name} = {short_repr(row.get(name))}, expected {expected}")
    return rows


def number_in(cell: str) -> float:
    """Parse a cell; NaN for what is not a number."""
    try:
        return float(cell)
    except ValueError:
        return math.nan


def doubles(path: Path) -> list[float]:
    """Read a file of little-endian doubles; an incomplete last one is ignored."""
    data = content(path, MOST_CERTIFICATES)
    return list(struct.unpack(f"<{len(data) // 8}d", data[: len(data) // 8 * 8]))


def check_length(path: Path) -> None:
    """Refuse a safetensors file that is longer than its header says; a sparse file may be longer than any disk."""
    size, table = _safetensors_header(path)
    try:
        ends = [int(entry["data_offsets"][1]) for name, entry in table.items() if name != "__metadata__"]
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"the header of {path} does not describe tensors: it is corrupt") from error
    if path.stat().st_size > 8 + size + max(ends, default=0):
        raise ValueError(f"{path} is longer than its header says: it is corrupt")


def _safetensors_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Read the header of a safetensors file; return its bytes and its table."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > min(MOST_HEADER, path.stat().st_size):
            raise ValueError(f"{path} has a header of {size:,} bytes, more than a model's: it is truncated or corrupt")
        data = file.read(size)
    table = parse_object(data.decode(errors="replace"), f"the header of {path}")
    return size, table


def weights_metadata(path: Path) -> dict[str, Any]:
    """Read the metadata in the header of a safetensors file, without torch."""
    metadata = _safetensors_header(path)[1].get("__metadata__", {})
    if not is_object(metadata) or not all(map(is_text, metadata.values())):
        raise ValueError(f"the header of {path} has metadata that is not text: it is corrupt")
    return dict(metadata)


def class_names(path: Path) -> tuple[str, ...]:
    """Read the names of the classes that are stored with the weights; none in a file of version 0.1."""
    spec = weights_metadata(path).get("spec")
    names = parse_object(spec, f"the spec in {path}").get("class_names") if spec is not None else []
    if not isinstance(names, list) or not all(map(is_text, names)):
        raise ValueError(f"the spec in {path} has class_names = {short_repr(names)}, expected a list of texts")
    return tuple(names)


def normalisation(path: Path) -> tuple[list[float], list[float]]:
    """Read the mean and the std of the first layer that are stored with the weights; empty if there are none."""
    spec = weights_metadata(path).get("spec")
    constants: Any = parse_object(spec, f"the spec in {path}").get("normalisation") if spec is not None else [[], []]
    lists = isinstance(constants, list) and len(constants) == 2 and all(isinstance(part, list) for part in constants)
    if not lists or not all(is_number(value) for part in constants for value in part):
        raise ValueError(f"the spec in {path} has normalisation = {short_repr(constants)}, expected mean and std")
    return constants[0], constants[1]


# Cells of a certificate file


def whole(cell: str) -> int:
    """Parse a whole number of either sign."""
    if len(cell) > MOST_DIGITS or abs(number := int(cell)) > MOST_WHOLE:
        raise ValueError(f"{short_repr(cell)} is too large")
    return number


def seconds(cell: str) -> float:
    """Parse a number of seconds, or a time such as `1 day, 0:00:14.649345`, as Python writes it."""
    days, comma, clock = cell.rpartition(",")
    parts = [float(part) for part in clock.split(":")]
    words = days.split()
    if len(parts) not in (1, 3) or bool(comma) != bool(words):
        raise ValueError(f"time {short_repr(cell)}")
    hours, minutes, rest = parts if len(parts) == 3 else (0.0, 0.0, parts[0])
    total = 86_400 * (whole(words[0]) if words else 0) + 3600 * hours + 60 * minutes + rest
    if not abs(total) <= MOST_SECONDS:
        raise ValueError(f"time {short_repr(cell)}, expected seconds")
    return total

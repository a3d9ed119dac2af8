"""What the fields of a run's files may be: a check for each, and what it expects in words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_WHOLE = 10**15
MOST_SECONDS = 1e10
MOST_BLOCK = 1 << 20
"""Images of a forward block."""
MOST_PATH, MOST_NAME = 4096, 255
"""Bytes of a path, and of a name in it."""

PARTS = ("train", "validation", "test", "given")
"""What certificates may be about: a part of a dataset, or images that a program gave."""

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_object_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(is_text_or_none(each) for each in value.values())


def are_environments(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and is_integer(each.get("first_row")) for each in value
    )


def is_count(value: Any) -> bool:
    return is_integer(value) and 0 < value <= MOST_WHOLE


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return (is_integer(value) or isinstance(value, float)) and abs(value) <= MOST_WHOLE


def is_time(value: Any) -> bool:
    return is_number(value) and 0 < value <= MOST_SECONDS


def is_share(value: Any) -> bool:
    return is_number(value) and 0 < value < 1


def is_path(value: Any) -> bool:
    """Whether a text can be a path at all: the system refuses others with errors that name no file."""
    if not isinstance(value, str) or "\0" in value or len(value.encode(errors="replace")) > MOST_PATH:
        return False
    return all(len(part.encode(errors="replace")) <= MOST_NAME for part in Path(value).parts)


HEADER: dict[str, tuple[Check, str]] = {
    "procedure": (is_text, "a name"),
    "parameters": (is_object, "an object"),
    "noise": (is_object, "an object"),
    "sigma": (lambda value: value is None or (is_number(value) and value > 0), "a number above 0"),
    "seed": (is_integer, "a whole number"),
    "images": (is_count, "a whole number >= 1"),
    "every": (is_count, "a whole number >= 1"),
    "most": (lambda value: value is None or is_count(value), "a whole number >= 1, or null"),
    "dataset": (is_text, "a name"),
    "split": (lambda value: value in PARTS, f"one of {', '.join(PARTS)}"),
    "validation": (is_count, "a whole number >= 1"),
    "evaluated_on": (lambda value: is_object(value) and is_text(value.get("name")), "an object with a name"),
    "label_known": (lambda value: isinstance(value, bool), "true or false"),
    "engine": (is_text, "a name"),
    "device": (is_text, "a name"),
    "format": (is_count, "a whole number >= 1"),
    "weights": (is_text, "a text"),
    "data": (is_text, "a text"),
    "code": (is_object_of_texts, "an object of texts"),
    "artefact": (is_text_or_none, "a text or null"),
    "batch_size": (lambda value: is_count(value) and value <= MOST_BLOCK, f"a whole number from 1 to {MOST_BLOCK}"),
    "environments": (are_environments, "a list of objects with a first_row"),
}
TRANSFER: dict[str, tuple[Check, str]] = {
    "method": (is_text, "a name"),
    "method_seconds_per_epoch": (is_time, "seconds"),
    "steps_timed": (is_count, "a whole number >= 1"),
}
TRANSFER_TIMES: dict[str, tuple[Check, str]] = {
    "seconds_before": (
        lambda value: is_object(value) and all(each is None or is_time(each) for each in value.values()),
        "an object of seconds",
    ),
}
"""What a student's record states since 0.2."""
HISTORY: dict[str, tuple[Check, str]] = {
    "seconds": (is_time, "a time above 0"),
    "noisy_test_accuracy": (lambda value: 0 <= value <= 1, "a share"),
}

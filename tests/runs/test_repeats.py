"""Counting how often the same images were certified with the same weights."""

from typing import Any

import pytest

from radii.runs.certificates import Certificates, Row
from radii.runs.repeats import repeats_note

PARAMETERS = {"failure": 0.001}


def file(numbers: dict[str, int], **header: Any) -> Certificates:
    """Return certificates of images that are named by their digests, with their numbers."""
    rows = [Row(number, 0, 0, 0.1, 0.0, digest=digest) for digest, number in numbers.items()]
    return Certificates("mine", rows, {"weights": "w", "data": "one", "parameters": PARAMETERS, **header})


def test_same_draws_are_not_counted() -> None:
    assert repeats_note(file({"a": 0, "b": 1}), [file({"a": 0}), file({"b": 1}, data="another")]) == ""


def test_images_with_other_numbers_have_other_noise_and_are_counted() -> None:
    ways = [file({"a": 1, "b": 0}, data="reversed"), file({"a": 2, "b": 3}, data="later")]
    note = repeats_note(file({"a": 0, "b": 1}), [*ways, ways[0]])
    assert note.startswith("its images were also certified 2 times with other settings of the same weights")
    assert note.endswith("up to 0.003")


@pytest.mark.parametrize("other", [file({"c": 0}, data="another"), file({"a": 5}, weights="other")])
def test_other_images_and_other_weights_are_not_counted(other: Certificates) -> None:
    assert repeats_note(file({"a": 0}), [other]) == ""

"""The details behind the numbers, as text."""

from typing import Any

import pytest

from radii.reports.details import details
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary
from radii.reports.protocol import bias_warning, describe_images
from radii.reports.text import UNKNOWN, duration
from radii.runs.certificates import Certificates, Row

FIXED = {"procedure": "fixed", "parameters": {"failure": 0.001, "estimation": 100_000, "radii": [0.25, 0.5]}}


def certified(indices: range | list[int], **header: Any) -> Certificates:
    return Certificates("a", [Row(index, 1, 1, 0.123456789, 2.0, 1000) for index in indices], header)


@pytest.mark.parametrize(
    ("certificates", "words"),
    [
        (certified(range(0, 100, 20), every=20, images=100, split="test"), "every 20th of 100 test images (5)"),
        (certified(range(1200), every=1, images=1200), "all 1,200 test images"),
        (
            certified(range(0, 40, 2), every=2, images=100, most=20),
            "the first 20 of every 2nd of 100 test images (may be biased)",
        ),
        (certified(range(5), every=1, images=100, most=5), "the first 5 of 100 test images (may be biased)"),
        (
            certified(range(0, 60, 20), every=20, images=100),
            "every 20th of 100 test images (5), 3 of them so far",
        ),
        (certified(range(1000)), "images 0 to 999 (1,000)"),
        (certified(range(500, 1000)), "images 500 to 999 (500)"),
        (certified(range(0, 100, 11)), "every 11th image, 0 to 99 (10)"),
        (
            certified(range(3), every=1, images=9, most=5),
            "the first 5 of 9 test images (may be biased), 3 of them so far",
        ),
        (certified([3, 1, 2, 9]), "4 images"),
        (certified([7]), "1 image"),
    ],
)
def test_choice_of_images_as_text(certificates: Certificates, words: str) -> None:
    assert describe_images(certificates) == words


def test_details_of_a_certifier() -> None:
    text = details(Entry("a", Summary(certified(range(10), seed=3, engine="torch", **FIXED))))
    assert text["Certifier"] == "fixed: failure 0.001, estimation 100,000, radii 0.25 0.5"
    assert (text["Seed"], text["Samples per image"], text["Samples in all"]) == ("3", "1,000", "10,000")
    assert (text["Engine"], text["Label"], text["Weights"]) == ("torch", UNKNOWN, UNKNOWN)
    assert (text["Time per image"], text["Certification time"], text["Model"]) == ("2 s", "20 s", UNKNOWN)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.01234, "0.0123 s"), (14.46, "14.5 s"), (600, "10 min"), (5990, "1 h 40 min"), (144_660, "40 h 11 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_parameter_without_a_value_is_not_listed() -> None:
    text = details(Entry("a", Summary(certified([1], procedure="fixed", parameters={"failure": 0.1, "radius": None}))))
    assert text["Certifier"] == "fixed: failure 0.1"


def test_samples_per_image_are_rounded_up() -> None:
    rows = [Row(0, 1, 1, 0.5, 1.0, 100), Row(1, 1, 1, 0.5, 1.0, 101), Row(2, 1, 1, 0.5, 1.0, 100)]
    assert details(Entry("a", Summary(Certificates("a", rows))))["Samples per image"] == "101"


def labelled(labels: list[int], voted: int = 9) -> Certificates:
    return Certificates("a", [Row(index, label, label, 0.5, 1.0, 10, {voted: 1}) for index, label in enumerate(labels)])


@pytest.mark.parametrize(
    ("certificates", "names", "biased"),
    [
        (labelled([0] * 20), (), True),
        (labelled([0, 1, 2, 3] * 5), (), True),
        (labelled([0, 1, 2, 3, 4] * 4), (), False),
        (labelled([0] * 9), (), False),
        (labelled([0] * 20, voted=0), (), False),
        (labelled([0] * 20, voted=0), tuple("abcdefghij"), True),
        (labelled([0] * 20, voted=0), ("a", "b"), False),
    ],
)
def test_images_of_few_classes_are_a_biased_choice(certificates: Certificates, names: Any, biased: bool) -> None:
    assert ("biased" in bias_warning(certificates, names)) == biased

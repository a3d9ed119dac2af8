"""The facts behind the numbers, in words."""

from typing import Any

import pytest

from radii.experiment.certificates import Certificates, Row
from radii.report.entries import Entry
from radii.report.facts import UNKNOWN, choice, duration, facts, notes
from radii.report.summary import Summary

FIXED = {"procedure": "fixed", "parameters": {"failure": 0.001, "estimation": 100_000, "radii": [0.25, 0.5]}}


def made(indices: range | list[int], **header: Any) -> Certificates:
    return Certificates("a", [Row(index, 1, 1, 0.123456789, 2.0, 1000) for index in indices], header)


@pytest.mark.parametrize(
    ("certificates", "words"),
    [
        (made(range(0, 100, 20), every=20, images=100, split="test"), "every 20th of 100 test images (5)"),
        (made(range(1200), every=1, images=1200), "all 1,200 test images"),
        (made(range(0, 40, 2), every=2, images=100, most=20), "the first 20 of every 2nd of 100 test images"),
        (made(range(5), every=1, images=100, most=5), "the first 5 of 100 test images"),
        (made(range(0, 60, 20), every=20, images=100), "every 20th of 100 test images (5), 3 of them so far"),
        (made(range(1000)), "images 0 to 999 (1,000)"),
        (made(range(500, 1000)), "images 500 to 999 (500)"),
        (made(range(0, 100, 11)), "every 11th image, 0 to 99 (10)"),
        (made([3, 1, 2, 9]), "4 images"),
        (made([7]), "1 image"),
    ],
)
def test_choice_of_images_in_words(certificates: Certificates, words: str) -> None:
    assert choice(certificates) == words


def test_facts_of_a_certifier() -> None:
    found = facts(Entry("a", Summary(made(range(10), seed=3, **FIXED))))
    assert found["Certifier"] == "fixed: failure 0.001, estimation 100,000, radii 0.25 0.5"
    assert (found["Seed"], found["Samples per image"], found["Samples in all"]) == ("3", "1,000", "10,000")
    assert (found["Time per image"], found["Certification time"], found["Model"]) == ("2 s", "20 s", UNKNOWN)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.01234, "0.0123 s"), (14.46, "14.5 s"), (600, "10 min"), (5990, "1 h 40 min"), (144_660, "40 h 11 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def entry(name: str, certificates: Certificates) -> Entry:
    return Entry(name, Summary(certificates))


def test_notes_warn_of_what_does_not_compare() -> None:
    plain = made(range(10), **FIXED)
    assert notes([entry("a", plain), entry("b", plain)]) == []
    other = made(range(10), procedure="fixed", parameters={"failure": 0.01})
    assert "budgets differ" in notes([entry("a", plain), entry("b", other)])[0]
    assert "different images" in notes([entry("a", plain), entry("b", made(range(9), **FIXED))])[0]
    unfinished = made(range(10), every=1, images=20, **FIXED)
    assert notes([entry("a", unfinished)]) == ["a: all 20 test images, 10 of them so far."]


def test_notes_warn_of_files_that_others_made() -> None:
    rounded = Certificates("b", [Row(0, 1, 1, 0.953, 1.0), Row(1, 1, 1, 1.35, 1.0)])
    not_on_record, printed = notes([entry("b", rounded)])
    assert not_on_record.startswith("b: the certifier is not on record")
    assert printed.startswith("b: the radii were printed with three significant digits")
    assert len(notes([entry("c", made(range(3)))])) == 1, "radii in full precision were not rounded"
    assert notes([entry("a", rounded), entry("b", rounded)])[0].startswith("All inputs:")

"""Notes that a reader needs before comparing inputs."""

from typing import Any

import pytest

from radii.reports.inputs import Entry
from radii.reports.metrics import Summary
from radii.reports.page.notes import notes
from radii.runs.certificates import Certificates, Row

FIXED: dict[str, Any] = {"procedure": "fixed", "parameters": {"failure": 0.001, "estimation": 100_000}}
MANY = range(100)


def made(indices: range, **header: Any) -> Certificates:
    rows = [Row(index, index % 10, index % 10, 0.123456789, 2.0, 1000) for index in indices]
    return Certificates("a", rows, {**FIXED, **header})


def entry(name: str, certificates: Certificates) -> Entry:
    return Entry(name, Summary(certificates))


def test_comparable_inputs_have_no_note() -> None:
    assert notes([entry("a", made(MANY)), entry("b", made(MANY))]) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (made(MANY, parameters={"failure": 0.001}), "budgets differ"),
        (made(MANY, parameters={**FIXED["parameters"], "failure": 0.01}), "probabilities differ: 0.001 (a), 0.01 (b)."),
        (made(range(99)), "different images"),
        (made(MANY, dataset="mnist"), "different datasets"),
    ],
)
def test_inputs_that_are_not_comparable_have_a_note(other: Certificates, words: str) -> None:
    found = notes([entry("a", made(MANY)), entry("b", other)])
    assert any(words in note for note in found)
    assert found[-1] == "No best is marked, as the inputs were not certified in the same way."


def test_different_seeds_have_a_note_and_are_comparable() -> None:
    inputs = [entry(name, made(MANY, seed=seed)) for name, seed in (("a", 0), ("b", 1), ("c", 0))]
    assert notes(inputs) == ["The seeds differ: 1 (b), 0 (the others)."]


def test_few_images_have_a_note() -> None:
    found = notes([entry("a", made(range(10))), entry("b", made(range(10)))])
    assert found == ["No best is marked: that takes at least 100 images."]


def test_unfinished_file_has_a_note() -> None:
    assert notes([entry("a", made(MANY, every=1, images=200))]) == ["a: all 200 test images, 100 of them so far."]


def test_biased_choice_has_a_note() -> None:
    rows = [Row(index, 0, index % 10, 0.1, 1.0) for index in range(20)]
    (found,) = notes([entry("a", Certificates("a", rows, {**FIXED, "every": 1, "images": 100, "most": 20}))])
    assert found.startswith("a: the 20 images are of 1 of 10 classes: a biased choice")


def test_known_label_and_untested_radii_have_a_note() -> None:
    sequential = made(MANY, procedure="sequential", parameters={"radii": [0.25], "failure": 0.001})
    some, label = notes([entry("a", sequential)])
    assert some.startswith("a: only some radii were tested")
    assert "label known" in label
    assert "certificates made without labels" in label
    (some,) = notes([entry("a", made(MANY, **{**sequential.header, "label_known": False}))])
    assert "label" not in some


def test_files_of_other_tools_have_a_note() -> None:
    rounded = Certificates("b", [Row(0, 1, 1, 0.953, 1.0), Row(1, 0, 1, 1.35, 1.0)])
    unrecorded, printed = notes([entry("b", rounded)])
    assert unrecorded.startswith("b: the certifier is not recorded")
    assert printed.startswith("b: the radii were printed with three significant digits")
    exact = Certificates("c", made(range(3)).rows)
    assert len(notes([entry("c", exact)])) == 1, "radii in full precision were not rounded"
    assert notes([entry("a", rounded), entry("b", rounded)])[0].startswith("All inputs:")

"""Notes that a reader needs before comparing inputs."""

from pathlib import Path
from typing import Any

import pytest

from radii.reports.inputs import Entry
from radii.reports.metrics import Summary
from radii.reports.page.notes import noise_words, notes
from radii.reports.report import report
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Certificates, Row

FIXED: dict[str, Any] = {"procedure": "fixed", "parameters": {"failure": 0.001, "estimation": 100_000}}
MANY = range(100)


def certified(indices: range, **header: Any) -> Certificates:
    rows = [Row(index, index % 10, index % 10, 0.123456789, 2.0, 1000) for index in indices]
    return Certificates("a", rows, {**FIXED, **header})


def entry(name: str, certificates: Certificates) -> Entry:
    return Entry(name, Summary(certificates))


def test_comparable_inputs_have_no_note() -> None:
    assert notes([entry("a", certified(MANY)), entry("b", certified(MANY))]) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            certified(MANY, parameters={"failure": 0.001}),
            "budgets differ: fixed: failure 0.001, estimation 100,000 (a); fixed: failure 0.001 (b). ACR",
        ),
        (
            certified(MANY, parameters={**FIXED["parameters"], "failure": 0.01}),
            "probabilities differ: 0.001 (a); 0.01 (b).",
        ),
        (
            certified(range(99)),
            "different images: images 0 to 99 (100) (a); images 0 to 98 (99) (b). Their numbers are not",
        ),
        (certified(MANY, dataset="mnist"), "different datasets: not recorded (a); mnist (b)."),
    ],
)
def test_inputs_that_are_not_comparable_have_a_note(other: Certificates, words: str) -> None:
    note = notes([entry("a", certified(MANY)), entry("b", other)])
    assert any(words in note for note in note)
    assert note[-1] == "No best is marked, as the inputs were not certified in the same way."


def test_different_seeds_have_a_note_and_are_comparable() -> None:
    inputs = [entry(name, certified(MANY, seed=seed)) for name, seed in (("a", 0), ("b", 1), ("c", 0))]
    assert notes(inputs) == ["The seeds differ: 1 (b); 0 (a, c)."]


def test_few_images_have_a_note() -> None:
    note = notes([entry("a", certified(range(10))), entry("b", certified(range(10)))])
    assert note == ["No best is marked: that takes at least 100 images."]


def test_unfinished_file_has_a_note() -> None:
    assert notes([entry("a", certified(MANY, every=1, images=200))]) == ["a: all 200 test images, 100 of them so far."]


def test_biased_choice_has_a_note() -> None:
    rows = [Row(index, 0, index % 10, 0.1, 1.0) for index in range(20)]
    (note,) = notes([entry("a", Certificates("a", rows, {**FIXED, "every": 1, "images": 100, "most": 20}))])
    assert note.startswith("a: the 20 images are of 1 of 10 classes: a biased choice")


def test_known_label_and_untested_radii_have_a_note() -> None:
    sequential = certified(MANY, procedure="sequential", parameters={"radii": [0.25], "failure": 0.001})
    some, label = notes([entry("a", sequential)])
    assert some.startswith("a: only some radii were tested")
    assert "label known" in label
    assert "certificates made without labels" in label
    (some,) = notes([entry("a", certified(MANY, **{**sequential.header, "label_known": False}))])
    assert "label" not in some


def test_files_of_other_tools_have_a_note() -> None:
    rounded = Certificates("b", [Row(0, 1, 1, 0.953, 1.0), Row(1, 0, 1, 1.35, 1.0)])
    unrecorded, printed = notes([entry("b", rounded)])
    assert unrecorded.startswith("b: the certifier is not recorded")
    assert printed.startswith("b: the radii were printed with three significant digits")
    exact = Certificates("c", certified(range(3)).rows)
    assert len(notes([entry("c", exact)])) == 1, "radii in full precision were not rounded"
    assert notes([entry("a", rounded), entry("b", rounded)])[0].startswith("All inputs:")


def test_other_settings_of_the_same_weights_have_a_note() -> None:
    settings = [{**FIXED["parameters"], "estimation": samples} for samples in (100, 200, 300)]
    inputs = [
        entry(f"{n}", certified(MANY, parameters=parameters, weights="w")) for n, parameters in enumerate(settings)
    ]
    words = "images were also certified 2 times with other settings of the same weights: the failure probability"
    assert f"All inputs: their {words} of the best of them is up to 0.003." in notes(inputs)
    others = [
        certified(MANY, parameters=settings[1], weights="other"),
        certified(range(200, 300), parameters=settings[1]),
    ]
    assert not any("also certified" in note for note in notes([inputs[0], *(entry("x", other) for other in others)]))


def test_files_beside_a_file_that_was_named_alone_are_counted(tmp_path: Path) -> None:
    for number in range(4):
        parameters = {**FIXED["parameters"], "estimation": 100 + number}
        file = CertificateFile(tmp_path / f"{number}.tsv", {**FIXED, "parameters": parameters, "weights": "w"})
        file.append(Row(0, 1, 1, 0.5, 1.0, 100, digest="d"))
    (tmp_path / "damaged.tsv").write_text("not certificates")
    (tmp_path / "damaged.json").write_text("{}")
    report([tmp_path / "2.tsv"], tmp_path / "report")
    for page in ("report.md", "report.html"):
        assert "its images were also certified 3 times with other settings" in (tmp_path / "report" / page).read_text()


def test_many_inputs_have_the_usual_value_of_the_others() -> None:
    inputs = [entry(f"run{n}", certified(MANY, seed=int(n == 3))) for n in range(9)]
    assert notes(inputs) == ["The seeds differ: 1 (run3); 0 (the others)."]


def test_noise_is_stated_with_its_unit() -> None:
    quarter, half = ({"noise": {"name": "gaussian", "sigma": sigma}} for sigma in (0.25, 0.5))
    one, other = entry("a", certified(MANY, **quarter)), entry("b", certified(MANY, **half))
    assert noise_words([one, one]) == "Noise: gaussian of sigma 0.25, pixels in [0, 1]."
    words = noise_words([one, other])
    assert words == "Noise: gaussian of sigma 0.25, pixels in [0, 1] (a); gaussian of sigma 0.5, pixels in [0, 1] (b)."
    assert noise_words([entry("c", Certificates("c", certified(MANY).rows, {"sigma": 0.12}))]).startswith(
        "Noise: sigma 0.12"
    )

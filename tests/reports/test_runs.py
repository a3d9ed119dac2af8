"""Reports of run directories: their certificate files and what their training took."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import radii
from radii import certifiers, disk
from radii.certification.attack import AttackConfig, attack_run
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.population import certify_run_population
from radii.certifiers.population import OnePass
from radii.errors import RunWarning
from radii.reports import model_card
from radii.reports.details import details
from radii.reports.inputs import ABSENT, EDITED, GONE, OWN, UNRECORDED, present_attacks, read
from radii.reports.metrics import epoch_time
from radii.reports.population import present_proofs
from radii.reports.report import report
from radii.reports.text import UNKNOWN
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from radii.runs.run import Run, RunError
from tests.reports.samples import write_run

HEADER = {"parameters": {"failure": 0.001}, "sigma": 0.25, "every": 1, "images": 2, "seed": 0, "weights": "a" * 64}


def certified(path: Path, *procedures: str, seconds: Sequence[float] = ()) -> Run:
    """Write a run with epochs of these seconds, and a certificate file for each procedure."""
    run = write_run(path, seconds)
    for number, procedure in enumerate(procedures):
        file = CertificateFile(run.certificates / f"{procedure}-{number}.tsv", {**HEADER, "procedure": procedure})
        file.append(Row(0, 1, 1, 0.5, 1.0, 100))
        file.append(Row(1, 1, 0, 0.1, 1.0, 100))
    return run


def test_a_run_gives_a_row_per_certificate_file(tmp_path: Path) -> None:
    one = certified(tmp_path / "one", "fixed")
    two = certified(tmp_path / "two", "fixed", "planned")
    twice = certified(tmp_path / "twice", "fixed", "fixed")
    names = ["one", "two (fixed)", "two (planned)", "twice (fixed-0)", "twice (fixed-1)"]
    entries = read([one.path, two.path, twice.path])
    assert [entry.name for entry in entries] == names
    assert all(entry.run for entry in entries)


def test_files_of_one_certifier_are_told_apart_by_sigma_in_its_order(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", ())
    for number, sigma in enumerate((0.5, 0.12, 0.25)):
        noise = {"name": "gaussian", "sigma": sigma}
        header = {**HEADER, "procedure": "fixed", "sigma": sigma, "noise": noise}
        file = CertificateFile(run.certificates / f"fixed-{number}.tsv", header)
        file.append(Row(0, 1, 1, 0.5, 1.0, 100))
    assert [entry.name for entry in read([run.path])] == ["run (sigma 0.12)", "run (sigma 0.25)", "run (sigma 0.5)"]


def test_a_file_without_rows_is_left_out_with_a_warning(tmp_path: Path) -> None:
    run = certified(tmp_path / "run", "fixed")
    CertificateFile(run.certificates / "empty.tsv", {**HEADER, "procedure": "planned"})
    with pytest.warns(RunWarning, match=r"empty\.tsv holds no certificates yet and is left out"):
        assert [entry.name for entry in read([run.path])] == ["run"]


def test_error_for_a_run_without_certificates_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Make them with `radii certify .*bare`"):
        read([certified(tmp_path / "bare").path])


def test_details_of_training(tmp_path: Path) -> None:
    run = certified(tmp_path / "run", "fixed", seconds=[10.0, 12.0, 14.0])
    measured = epoch_time(run)
    assert measured is not None
    assert measured[:1] + measured[2:] == (12.0, 3, 36.0)
    assert measured.margin == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3), "Student's t with two degrees of freedom"
    shown = details(*read([run.path]))
    assert (shown["Model"], shown["Objective"], shown["Epochs"]) == ("digits_cnn", "gaussian", "3")
    assert (shown["Time per epoch"], shown["Training time"]) == ("12 s ± 5 s", "36 s")


def test_epoch_time_of_one_epoch_and_of_none(tmp_path: Path) -> None:
    assert epoch_time(certified(tmp_path / "one", seconds=[10.0])) == (10.0, None, 1, 10.0)
    nothing = certified(tmp_path / "none", "fixed")
    assert epoch_time(nothing) is None
    assert details(*read([nothing.path]))["Epochs"] == UNKNOWN


@pytest.mark.slow
def test_runs_show_their_training_side_by_side(tmp_path: Path) -> None:
    teacher = certified(tmp_path / "teacher", "fixed", seconds=[40.0, 41.0])
    student = certified(tmp_path / "student", "fixed", "planned", seconds=[5.0, 6.0])
    page = report([teacher.path, student.path], tmp_path / "out")
    assert "40.5 s ± 6.4 s" in page.read_text()
    assert "at most 0.001 per image" in page.read_text()
    text = page.with_name("report.md").read_text()
    assert "all 2 test images" in text
    assert "| Time per epoch | 40.5 s ± 6.4 s | 5.5 s ± 6.4 s | 5.5 s ± 6.4 s |" in text
    drawn = page.with_name("times.svg").read_text()
    assert drawn.count(">student<") == 1, "a bar a run, not a bar a certificate file"
    alone = report([student.path], tmp_path / "alone")
    assert "times.svg" not in {file.name for file in alone.parent.iterdir()}


def certified_weights(path: Path, weights: bytes) -> Run:
    """Write a run with weights, and certificates of them."""
    run = write_run(path, [1.0])
    disk.write(run.weights_file, weights)
    header = {**HEADER, "procedure": "fixed", "weights": disk.digest(run.weights_file)}
    CertificateFile(run.certificates / "fixed.tsv", header).append(Row(0, 1, 1, 0.5, 1.0, 100))
    return run


WEIGHTS = (2).to_bytes(8, "little") + b"{}"
"""A safetensors file without a tensor."""


def test_certificates_of_the_present_weights_are_the_runs_own(tmp_path: Path) -> None:
    (entry,) = read([certified_weights(tmp_path / "run", WEIGHTS).path])
    assert (entry.name, entry.weights, entry.own) == ("run", OWN, True)


@pytest.mark.parametrize("retrained", ["to the end", "half"])
def test_certificates_of_previous_weights_are_marked(tmp_path: Path, retrained: str) -> None:
    run = certified_weights(tmp_path / "run", WEIGHTS)
    if retrained == "half":
        run.weights_file.unlink()
        run.checkpoint_file.touch()
    else:
        disk.write(run.weights_file, (3).to_bytes(8, "little") + b"{} ")
    (entry,) = read([run.path])
    assert (entry.name, entry.own) == (f"run ({GONE})", False)
    assert (details(entry)["Weights"], details(entry)["Epochs"]) == (GONE, UNKNOWN), (
        "the epochs are those of other weights"
    )
    page = report([run.path], tmp_path / "out")
    for name in ("report.html", "report.md", "report.csv", "report.tex", "curves.svg"):
        assert "of weights that the run no longer has" in page.with_name(name).read_text()
    assert "trained again" in page.read_text()


def test_certificates_of_another_model_table_are_marked(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    """The weights are the same, but the recipe makes another function of them."""
    run = digits_run()
    certifier = certifiers.create("fixed", estimation=100)
    config = CertificationConfig(run=run.path, certifier=certifier, every=200, engine="torch")
    certify_run(config, workers=1)
    certify_run_population(replace(config, certifier=OnePass(votes=4)), workers=1)
    attack_run(AttackConfig(run=run.path, radii=(0.1,), steps=1, images=1, samples=50, engine="torch"))
    assert len(model_card.certified(run)) == len(present_attacks(run)) == len(present_proofs(run)) == 1
    run.recipe_file.write_text(run.recipe_file.read_text().replace('normalisation = "full"', 'normalisation = "none"'))
    edited = Run(run.path)
    assert not any((model_card.certified(edited), present_attacks(edited), present_proofs(edited)))
    with pytest.raises(RunError, match="has no certificates"):
        radii.compare(edited)
    (entry,) = read([run.path])
    assert (entry.name, entry.own) == (f"run ({EDITED})", False)
    assert "the model in the recipe was changed since" in report([run.path], tmp_path / "out").read_text()


def test_archive_without_weights_has_no_note(tmp_path: Path) -> None:
    run = certified_weights(tmp_path / "run", WEIGHTS)
    run.weights_file.unlink()
    (entry,) = read([run.path])
    assert (entry.name, details(entry)["Weights"], details(entry)["Epochs"]) == ("run", ABSENT, "1")


def test_file_without_recorded_weights_is_not_the_runs_own(tmp_path: Path) -> None:
    run = certified_weights(tmp_path / "run", WEIGHTS)
    (run.certificates / "fixed.json").unlink()
    (entry,) = read([run.path])
    assert entry.name == f"run ({UNRECORDED})"

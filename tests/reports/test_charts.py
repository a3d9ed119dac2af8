"""The figures of transfer and of training."""

import re
from pathlib import Path

import pytest

from radii import disk
from radii.reports.inputs import read
from radii.reports.metrics import Value
from radii.reports.page.charts import BOTTOM, LEFT, RIGHT, TOP, WIDTH, training_figures, transfer_figure
from radii.reports.transfer import TrainedRun, trained_runs
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from radii.runs.run import Run
from tests.reports.samples import write_run


def certified(path: Path, seconds: float, teacher: Path | None = None) -> Run:
    """Write a run of two epochs with a certificate, taught by a teacher if one is given."""
    run = write_run(path, [seconds] * 2, loss=1.0, noisy_test_accuracy=0.5)
    certify(run, "fixed")
    if teacher is not None:
        disk.write_json(run.origin_file, {"teacher": {"path": f"../{teacher.name}", "hash": "w"}})
        cost = {"method": "smoothmix", "method_seconds_per_epoch": 100.0, "steps_timed": 5}
        disk.write_json(run.path / "transfer.json", cost)
    return run


def certify(run: Run, procedure: str) -> None:
    header = {"procedure": procedure, "parameters": {"failure": 0.001}, "sigma": 0.25, "weights": "w"}
    CertificateFile(run.certificates / f"{procedure}.tsv", header).append(Row(0, 1, 1, 0.5, 1.0, 100))


def test_teacher_student_and_what_the_method_would_have_cost(tmp_path: Path) -> None:
    teacher = certified(tmp_path / "teacher", 90.0)
    student = certified(tmp_path / "student", 10.0, teacher.path)
    other = certified(tmp_path / "other", 5.0)
    runs = trained_runs(read([teacher.path, student.path, other.path]))
    assert [f"{run.name}: {run}" for run in runs] == [
        "teacher: ACR 0.5000 after 3 min",
        "student: ACR 0.5000 after 20 s; smoothmix would take 3 min",
        "other: ACR 0.5000 after 10 s, with Gaussian noise alone: the baseline",
    ], "two epochs of the teacher's, of a hundred seconds each"
    drawn = transfer_figure(runs, "l2")
    assert drawn is not None
    assert drawn.caption == "Average certified radius (ACR, l2, pixels in [0, 1]) over training time"
    assert drawn.svg.count('class="bar attacked"') == 1
    assert "Training time, minutes" in drawn.svg
    assert drawn.svg.count('class="hollow"') == 1
    # The names are below the figure: inside it, those of runs that are as robust would cover each other.
    assert "<text" not in re.sub(r'<text class="tick.*?</text>', "", drawn.svg)


@pytest.mark.parametrize(("seconds", "method", "acr"), [(100.0, 1.0, 0.5), (1.0, 1e6, 0.0), (0.0, 0.0, 3.0)])
def test_points_of_a_transfer_never_leave_the_plot(seconds: float, method: float, acr: float) -> None:
    """Where the teacher's method is faster, or slower by far; where nothing is certified; where a clock stood still."""
    student = TrainedRun(0, "student", seconds, Value(acr), "smoothmix", method)
    baseline = TrainedRun(1, "plain", 20.0, Value(0.2), baseline=True)
    drawn = transfer_figure([student, baseline])
    assert drawn is not None
    across = [float(x) for x in re.findall(r'cx="([\d.-]+)"', drawn.svg) + re.findall(r"[MH]([\d.-]+)", drawn.svg)]
    down = [float(y) for y in re.findall(r'cy="([\d.-]+)"', drawn.svg)]
    assert min(across) >= LEFT
    assert max(across) <= WIDTH - RIGHT
    assert min(down) >= TOP
    assert max(down) <= 320.0 - BOTTOM


def test_transfer_figure_needs_a_student(tmp_path: Path) -> None:
    assert transfer_figure(trained_runs(read([certified(tmp_path / "a", 1.0).path]))) is None


def test_training_curves_are_of_runs_not_of_certificate_files(tmp_path: Path) -> None:
    run = certified(tmp_path / "a", 1.0)
    certify(run, "planned")
    accuracy, loss = training_figures(read([run.path]))
    assert accuracy.svg.count('class="curve"') == 1
    assert loss.svg.count('class="curve"') == 1

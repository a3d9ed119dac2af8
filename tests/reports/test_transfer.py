"""The table of students beside their teachers."""

from pathlib import Path

import pytest

from radii import disk
from radii.reports.inputs import read
from radii.reports.report import report
from radii.reports.transfer import transfers
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from radii.runs.run import Run
from tests.reports.samples import write_run

HEADER = {"procedure": "fixed", "weights": "a"}


def trained(path: Path, objective: str, seconds: float, origin: dict[str, dict[str, str]], radius: float) -> Run:
    """Write a run of two epochs with a certificate."""
    run = write_run(path, [seconds] * 2, objective)
    disk.write_json(run.origin_file, origin)
    CertificateFile(run.certificates / "fixed.tsv", HEADER).append(Row(0, 3, 3, radius, 1.0, 100))
    return run


@pytest.fixture
def student(tmp_path: Path) -> Run:
    teacher = trained(tmp_path / "teacher", "smoothmix", 20.0, {}, 0.5)
    run = trained(tmp_path / "student", "transfer", 2.0, {"teacher": {"path": str(teacher.path), "hash": "a"}}, 0.4)
    cost = {"method": "smoothmix", "method_seconds_per_epoch": 30.98, "steps_timed": 5}
    disk.write_json(run.path / "transfer.json", cost)
    return run


def test_transfer_table_compares_teacher_and_student(student: Run) -> None:
    table = transfers(read([student.path]))
    assert table is not None
    (row,) = table.rows
    shown = dict(zip(table.head, (cell.text for cell in row), strict=True))
    assert (shown["ACR"], shown["Taught by"]) == ("0.4000", "teacher, ACR 0.5000")
    assert shown["Time per epoch"].startswith("2 s")
    assert shown["Training time"] == "4 s, 44 s with the teachers’"  # noqa: RUF001
    assert shown["Speed-up"].startswith("15.4 "), "15.49 is not rounded up"


def test_the_report_of_a_student_shows_its_teacher(student: Run, tmp_path: Path) -> None:
    page = report([student.path], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "## Transfer" in text
    assert "<h2>Transfer</h2>" in page.read_text()
    assert len((tmp_path / "out" / "report.csv").read_text().splitlines()) == 3


def test_transfer_table_needs_a_student(student: Run) -> None:
    teacher = student.source("teacher")
    assert teacher is not None
    assert transfers(read([teacher])) is None


def test_acr_of_a_retrained_teacher_is_not_shown(student: Run) -> None:
    teacher = student.source("teacher")
    assert teacher is not None
    for path in Run(teacher).certificates.iterdir():
        path.unlink()
    other = {**HEADER, "weights": "b"}
    CertificateFile(teacher / "certificates" / "fixed.tsv", other).append(Row(0, 3, 3, 0.5, 1.0, 100))
    table = transfers(read([teacher, student.path]))
    assert table is not None
    assert table.rows[0][1].text == "teacher, ACR –"  # noqa: RUF001
    assert [entry.source for entry in read([student.path])] == ["student"]


def test_run_that_only_claims_a_teacher_shows_nothing_of_it(student: Run, tmp_path: Path) -> None:
    private = trained(tmp_path / "private", "gaussian", 1.0, {}, 0.5)
    disk.write_json(student.origin_file, {"teacher": {"path": str(private.path), "hash": "another"}})
    assert [entry.source for entry in read([student.path])] == ["student"]
    report([student.path], tmp_path / "out")
    assert len((tmp_path / "out" / "report.csv").read_text().splitlines()) == 2


def test_file_with_an_exact_acr_is_preferred(student: Run) -> None:
    tested = {**HEADER, "procedure": "sequential", "parameters": {"radii": [0.25]}}
    CertificateFile(student.certificates / "sequential.tsv", tested).append(Row(0, 3, 3, 0.25, 1.0, 100))
    table = transfers(read([student.path]))
    assert table is not None
    assert [row[2].text for row in table.rows] == ["0.4000"]
    (student.certificates / "fixed.tsv").unlink()
    table = transfers(read([student.path]))
    assert table is not None
    assert [row[2].text for row in table.rows] == ["≥ 0.2500"]

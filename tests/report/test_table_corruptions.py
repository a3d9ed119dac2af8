"""Corruptions: the published logs give the numbers that the paper prints."""

import shutil
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.special import stdtrit

from radii.experiment import table
from radii.experiment.certificates import CertificateFile, Row
from radii.experiment.corruption_kinds import KINDS
from radii.experiment.table import TableError
from radii.experiment.table_files import results_from
from radii.report.table_corruptions import by_image, corrupted
from radii.report.table_values import difference, shift_of, value

HEADER = {
    **{"procedure": "fixed", "parameters": {"estimation": 1000, "failure": 0.001}, "dataset": "cifar10_c"},
    **{"split": "test", "images": 100, "every": 1, "noise": {"name": "gaussian", "sigma": 0.25}},
}


@pytest.mark.parametrize("name", [f"catrs-{number}" for number in range(13, 24)])
def test_published_logs_give_the_papers_row(name: str, logs: Path) -> None:
    """Every cell of CAT-RS's row: mACR 0.475 over all, and each kind at each severity."""
    found = table.read(table.find(name))
    row = found.row("CAT-RS")
    results = results_from(found, row, logs / "cifar10c-sigma0.25-cat-rs")
    assert len(results) == 15
    for column, printed in row.reported.items():
        assert isinstance(printed, Decimal)
        measured = value(found, column, results)
        assert measured is not None, column
        gap = difference(measured, printed, shift_of(found, column))
        assert gap is not None
        # 100 images a kind, radii of three digits: the mean of fifteen kinds was rounded once more.
        assert abs(gap.value) <= 0.00051, column


def test_interval_is_of_the_images_before_they_are_corrupted(logs: Path) -> None:
    """The 7,500 files' rows are of one hundred images: their corruptions are no independent choice."""
    found = table.read(table.find("catrs-13"))
    results = results_from(found, found.row("CAT-RS"), logs / "cifar10c-sigma0.25-cat-rs")
    values = by_image(found, "macr", results)
    assert len(values) == 100
    assert fmean(values) == pytest.approx(corrupted(found, "macr", results))
    rows = [row for each in results if each.certificates for row in each.certificates.rows]
    of_first = [row.radius * row.correct for row in rows if row.index % 10_000 == 0]
    assert values[0] == pytest.approx(fmean(of_first))
    measured = value(found, "macr", results)
    assert measured is not None
    assert measured.interval is not None
    assert measured.interval[1] - measured.value == pytest.approx(stdtrit(99, 0.975) * stdev(values) / 10)


def test_kind_without_a_file_is_unknown(logs: Path) -> None:
    found = table.read(table.find("catrs-14"))
    results = results_from(found, found.row("CAT-RS"), logs / "cifar10c-sigma0.25-cat-rs")
    assert corrupted(found, "Fog", [each for each in results if "fog" not in each.source]) is None


def own_files(folder: Path, kinds: Sequence[str], **stated: object) -> Path:
    """Certificates of radii's own of one image for each kind, with a radius of 0.4."""
    for number, kind in enumerate(kinds):
        header = {**HEADER, "evaluated_on": {"name": "cifar10_c", "kind": kind, **stated}}
        file = CertificateFile(folder / f"fixed-{number}.tsv", header)
        file.append(Row(0, 1, 1, 0.4, 0.1, 1000, {1: 990}, "digest"))
    return folder


def test_own_files_are_known_by_their_headers(tmp_path: Path) -> None:
    """Their names are digests, and the images of one severity count from 0 whatever it is."""
    files = own_files(tmp_path, list(KINDS["cifar10_c"].values()), severity=3)
    at_three, at_one, every = (table.read(table.find(name)) for name in ("catrs-18", "catrs-14", "catrs-13"))
    row = at_three.row("CAT-RS")
    assert corrupted(at_three, "Fog", results_from(at_three, row, files)) == pytest.approx(0.4)
    assert corrupted(at_three, "mACR", results_from(at_three, row, files)) == pytest.approx(0.4)
    assert corrupted(at_one, "Fog", results_from(at_one, row, files)) is None
    assert corrupted(every, "acr_severity1", results_from(every, row, files)) is None
    assert corrupted(every, "acr_severity3", results_from(every, row, files)) == pytest.approx(0.4)
    assert corrupted(every, "macr", results_from(every, row, files)) is None


def test_mean_is_of_the_papers_fifteen_kinds(tmp_path: Path, logs: Path) -> None:
    every = table.read(table.find("catrs-13"))
    published = results_from(every, every.row("CAT-RS"), logs / "cifar10c-sigma0.25-cat-rs")
    assert corrupted(every, "macr", published[1:]) is None
    files = own_files(tmp_path, [*KINDS["cifar10_c"].values(), "gaussian_blur", "saturate"], severity=1)
    at_one = table.read(table.find("catrs-14"))
    results = results_from(at_one, at_one.row("CAT-RS"), files)
    assert corrupted(at_one, "mACR", results) == pytest.approx(0.4)
    assert corrupted(at_one, "Gaussian", results[1:]) is None  # Gaussian blur is not Gaussian noise


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"dataset": "cifar10"}, "is of cifar10, "),
        ({"evaluated_on": {"name": "corrupted", "kind": "fog", "severity": 1}}, "is of corrupted, "),
    ],
)
def test_other_images_are_no_row_of_corruptions(stated: dict[str, object], words: str, tmp_path: Path) -> None:
    """Neither the clean test images nor those that `radii corrupt` made."""
    file = CertificateFile(tmp_path / "fog.tsv", {**HEADER, **stated})
    file.append(Row(0, 1, 1, 0.4, 0.1, 1000, {1: 990}, "digest"))
    every = table.read(table.find("catrs-13"))
    with pytest.raises(TableError, match=words):
        results_from(every, every.row("CAT-RS"), tmp_path)


def test_log_of_no_kind_is_refused(logs: Path, tmp_path: Path) -> None:
    shutil.copy(logs / "cifar10c-sigma0.25-cat-rs" / "fog.tsv", tmp_path / "cat-rs.tsv")
    every = table.read(table.find("catrs-13"))
    with pytest.raises(TableError, match="names no kind of corruption of cifar10_c"):
        results_from(every, every.row("CAT-RS"), tmp_path / "cat-rs.tsv")

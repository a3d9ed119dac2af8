"""A certificate file is used as a row only if it can belong to that row."""

import json
import re
import shutil
from pathlib import Path

import pytest

from radii.papers import tables
from radii.papers.external import results_from
from radii.papers.tables import TableError
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from tests.papers.samples import SIX
from tests.reports.samples import write_log

CATRS_3, CRT_2, CATRS_13 = (tables.load(name) for name in ("catrs-3", "crt-2", "catrs-13"))


def log(path: Path, *rows: tuple[int, int, float]) -> Path:
    """Write a published log of images, labels and radii, all correct."""
    return write_log(path, *((index, label, label, radius) for index, label, radius in rows), time="0:00:01")


def test_log_without_sigma_and_dataset_is_used_with_a_remark(tmp_path: Path) -> None:
    (result,) = results_from(CATRS_3, CATRS_3.row("Gaussian, sigma 0.25"), log(tmp_path / "plain.tsv", (0, 7, 0.9)))
    assert result.remark == "the file does not state its sigma and dataset: taken for the row's, unchecked"


def test_log_with_sigma_and_dataset_has_no_remark(logs: Path) -> None:
    table = tables.load("consistency-7")
    (result,) = results_from(table, table.row("Gaussian, sigma 0.50"), logs / "cifar10-sigma0.50-cohen.tsv")
    assert not result.remark


def test_log_with_radii_too_large_for_the_sigma_is_refused(logs: Path, tmp_path: Path) -> None:
    """Under a name that does not say so."""
    file = tmp_path / "plain.tsv"
    shutil.copy(logs / "cifar10-sigma0.50-cohen.tsv", file)
    with pytest.raises(TableError, match=r"at the row's sigma, 0\.25, 100,000 samples prove none above 0\.95"):
        results_from(CATRS_3, CATRS_3.row("Gaussian, sigma 0.25"), file)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((10_000, 7, 0.5), "has the image 10000, and mnist has 10,000 test images"),
        ((0, 10, 0.5), "has the label 10, and mnist has 10 classes"),
        ((0, 7, 3.5), "has the radius 3.5"),
    ],
)
def test_impossible_image_label_or_radius_is_refused(row: tuple[int, int, float], reason: str, tmp_path: Path) -> None:
    file = log(tmp_path / "mnist-sigma0.25.tsv", row)
    with pytest.raises(TableError, match=reason):
        results_from(CATRS_3, CATRS_3.row("Gaussian, sigma 0.25"), file)


@pytest.mark.parametrize("name", ["cifar10c-sigma0.25/mine.tsv", "cifar10_c/mine.tsv", "logs/fog.tsv"])
def test_log_of_corrupted_images_is_refused_for_clean_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"was made on cifar10_c; the row|was not made on the test images"):
        results_from(CRT_2, CRT_2.rows[0], log(tmp_path / name, (0, 7, 0.5)))


def test_log_of_clean_images_is_refused_for_corrupted_ones(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"was made on mnist; the row 'CAT-RS' of catrs-13 needs cifar10_c"):
        results_from(CATRS_13, CATRS_13.row("CAT-RS"), log(tmp_path / "mnist-sigma0.25" / "fog.tsv", (0, 7, 0.5)))


def test_folder_of_many_logs_is_refused(logs: Path) -> None:
    with pytest.raises(TableError, match=r"holds 7 certificate files, a row needs one. Name it"):
        results_from(CRT_2, CRT_2.rows[0], logs)


def test_run_of_another_method_is_refused() -> None:
    with pytest.raises(TableError, match=r"belongs to a run of gaussian on lenet; the row 'SmoothMix, sigma 0.50'"):
        results_from(CATRS_3, CATRS_3.row("SmoothMix, sigma 0.50"), SIX / "gaussian")


def test_run_with_other_settings_is_remarked(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(SIX / "smoothmix", run)
    assert not results_from(CATRS_3, CATRS_3.row("SmoothMix, sigma 0.50"), run)[0].remark
    recipe = run / "recipe.toml"
    recipe.write_text(re.sub(r"\nmix_step = \d+", "\nmix_step = 1", recipe.read_text()))
    (result,) = results_from(CATRS_3, CATRS_3.row("SmoothMix, sigma 0.50"), run)
    assert result.remark == "its run has other settings, or another teacher, than the row"


def test_large_radii_of_many_samples_are_accepted(tmp_path: Path) -> None:
    """A header states its samples, which its radii were checked against."""
    (ours,) = (SIX / "gaussian" / "certificates").glob("*.json")
    stated = json.loads(ours.read_text())
    stated["parameters"]["estimation"] = 10_000_000
    file = CertificateFile(tmp_path / "a.tsv", stated)
    file.append(Row(0, 7, 7, 2.2, 0.1, 10_000_100, {7: 10_000_000}, "digest"))
    assert results_from(CATRS_3, CATRS_3.row("Gaussian, sigma 0.50"), file.path)

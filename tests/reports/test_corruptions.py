"""Certificates of corrupted images: means over kinds and severities."""

import csv
from pathlib import Path

import pytest

from radii.reports import corruptions
from radii.reports.corruptions import mean
from radii.reports.inputs import read
from radii.reports.metrics import Value, shown
from radii.reports.report import report
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from tests.reports.samples import write_log

PUBLISHED = "cifar10c-sigma0.25-cat-rs"

HEADER = {
    **{"procedure": "fixed", "dataset": "cifar10_c", "split": "test", "images": 100, "every": 1},
    **{"noise": {"name": "gaussian", "sigma": 0.25}},
}


def log(path: Path, radii: dict[int, float]) -> None:
    """Write a log of correct predictions, with the radii of the images."""
    write_log(path, *((index, 1, 1, radius) for index, radius in radii.items()))


def test_published_logs_give_the_row_of_the_paper(logs: Path) -> None:
    (kinds,) = corruptions.groups(read([logs / PUBLISHED])).values()
    assert len(kinds) == 15
    acr, accuracy = (corruptions.values(kinds, measure) for measure in ("ACR", "accuracy"))
    assert [round(value.value, 3) for value in acr if value] == [0.475, 0.521, 0.493, 0.476, 0.458, 0.430]
    # The paper prints accuracies of rounded accuracies: they differ by at most one in the last digit.
    printed = [70.1, 75.3, 71.6, 69.8, 69.4, 64.4]
    assert [100 * value.value for value in accuracy if value] == pytest.approx(printed, abs=0.06)


def test_means_are_over_kinds_and_severities_are_blocks_of_the_published_files(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log(folder / "fog.tsv", {0: 0.1, 10_000: 0.2, 20_000: 0.3, 30_000: 0.4, 49_900: 0.5})
    log(folder / "snow.tsv", {0: 0.3, 10_000: 0.4, 20_000: 0.5, 30_000: 0.6, 40_000: 0.7})
    page = report([folder], tmp_path / "out")
    with (tmp_path / "out" / "corruptions.csv").open() as file:
        acr = {(row["kind"], row["severity"]): row["acr"] for row in csv.DictReader(file)}
    assert acr[("mean", "0")] == "0.400000"
    assert acr[("mean", "1")] == "0.200000"
    assert acr[("fog", "5")] == "0.500000"
    assert "Corruptions: logs" in page.read_text()
    assert "mean of 2 kinds" in (tmp_path / "out" / "report.md").read_text()


def test_severity_is_unknown_in_short_logs(tmp_path: Path) -> None:
    log(tmp_path / "fog.tsv", {0: 0.1, 100: 0.2})
    ((fog,),) = corruptions.groups(read([tmp_path])).values()
    assert fog.severities == {}
    assert [value and value.value for value in corruptions.values([fog], "ACR")] == pytest.approx([0.15, *[None] * 5])


def test_a_folder_without_logs_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a run: it has no recipe.toml"):
        read([tmp_path])


def test_whole_logs_are_grouped_in_one_pass(tmp_path: Path) -> None:
    """All 50,000 images of a kind: a search through all rows for each of them would take hours."""
    log(tmp_path / "fog.tsv", dict.fromkeys(range(50000), 0.25))
    ((fog,),) = corruptions.groups(read([tmp_path])).values()
    assert [summary.images for summary in fog.severities.values()] == [10_000] * 5


def test_a_folder_of_other_logs_is_not_of_corruptions(tmp_path: Path) -> None:
    log(tmp_path / "smoothmix.tsv", {0: 0.1, 100: 0.2})
    log(tmp_path / "macer.tsv", {0: 0.1, 100: 0.2})
    assert not corruptions.groups(read([tmp_path]))


def test_mean_of_shares_is_not_rounded_below_its_value() -> None:
    """Fifteen shares of a hundred whose mean is 0.716: a sum in floating point may end below it."""
    shares = [0.77, 0.73, 0.72, 0.76, 0.67, 0.74, 0.71, 0.69, 0.72, 0.65, 0.75, 0.66, 0.69, 0.74, 0.74]
    assert shown(mean([Value(share, True) for share in shares]), 1, 2) == "71.6"


def test_published_accuracies_are_shown_as_the_paper_prints_them(logs: Path, tmp_path: Path) -> None:
    """1,074 and 1,041 of 1,500 images, at the severities 2 and 4."""
    report(logs / PUBLISHED, tmp_path)
    rows = csv.DictReader((tmp_path / "corruptions.csv").read_text().splitlines())
    means = [row for row in rows if row["kind"] == "mean"]
    accuracy = {row["severity"]: float(row["accuracy"]) for row in means}
    assert (accuracy["2"], accuracy["4"]) == (0.716, 0.694)


def test_mean_of_kinds_that_were_certified_differently_says_so(tmp_path: Path) -> None:
    for kind, samples in (("fog", 1000), ("snow", 100_000)):
        header = {**HEADER, "parameters": {"estimation": samples, "failure": 0.001}}
        stated = {**header, "evaluated_on": {"name": "cifar10_c", "kind": kind, "severity": 0}}
        file = CertificateFile(tmp_path / f"fixed-{kind}.tsv", stated)
        file.append(Row(0, 1, 1, 0.4, 0.1, samples, {1: samples - 5}, "digest"))
    entries = read([tmp_path])
    assert "all severities" in entries[0].evaluated_on
    (kinds,) = corruptions.groups(entries).values()
    assert corruptions.table(kinds).rows[-1][0].text == "mean of 2 kinds, which were certified differently"
    alike = [kinds[0], kinds[0]._replace(kind="frost")]
    assert corruptions.table(alike).rows[-1][0].text == "mean of 2 kinds"
    assert corruptions.table(kinds[:1]).rows[-1][0].text == "mean of 1 kind"

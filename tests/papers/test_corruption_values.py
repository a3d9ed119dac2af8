"""Corruptions: the published logs give the numbers that the paper prints."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy.special import stdtrit

from radii.papers import tables
from radii.papers.external import results_from
from radii.papers.match import Result, group_results
from radii.papers.tables import TableError
from radii.papers.values import by_image, corruption_mean, difference, missing_corruptions, shift_of, value
from radii.published_datasets import KINDS
from radii.reports.metrics import Share
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row

HEADER = {
    **{"procedure": "fixed", "parameters": {"estimation": 1000, "failure": 0.001}, "dataset": "cifar10_c"},
    **{"split": "test", "images": 100, "every": 1, "noise": {"name": "gaussian", "sigma": 0.25}},
}


@pytest.mark.parametrize("name", [f"catrs-{number}" for number in range(13, 24)])
def test_published_logs_give_the_papers_row(name: str, logs: Path) -> None:
    """Every cell of CAT-RS's row: mACR 0.475 over all, and each kind at each severity."""
    table = tables.load(name)
    row = table.row("CAT-RS")
    results = results_from(table, row, logs / "cifar10c-sigma0.25-cat-rs")
    assert len(results) == 15
    for column, printed in row.reported.items():
        assert isinstance(printed, Decimal)
        measured = value(table, column, results)
        assert measured is not None, column
        gap = difference(measured, printed, shift_of(table, column))
        assert gap is not None
        # 100 images a kind, radii of three digits: the mean of fifteen kinds was rounded once more.
        assert abs(gap.value) <= 0.00051, column


def test_interval_is_over_the_images_before_their_corruptions(logs: Path) -> None:
    """The 7,500 rows are of one hundred images, whose corruptions were not chosen independently."""
    table = tables.load("catrs-13")
    results = results_from(table, table.row("CAT-RS"), logs / "cifar10c-sigma0.25-cat-rs")
    values = by_image(table, "macr", results)
    assert len(values) == 100
    assert fmean(values) == pytest.approx(shown(table, "macr", results))
    rows = [row for result in results if result.certificates for row in result.certificates.rows]
    of_first = [row.radius * row.correct for row in rows if row.index % 10_000 == 0]
    assert values[0] == pytest.approx(fmean(of_first))
    measured = value(table, "macr", results)
    assert measured is not None
    assert measured.interval is not None
    assert measured.interval[1] - measured.value == pytest.approx(stdtrit(99, 0.975) * stdev(values) / 10)


def test_kind_without_a_file_is_unknown(logs: Path) -> None:
    table = tables.load("catrs-14")
    results = results_from(table, table.row("CAT-RS"), logs / "cifar10c-sigma0.25-cat-rs")
    assert corruption_mean(table, "Fog", [result for result in results if "fog" not in result.source]) is None


def shown(table: tables.PaperTable, column: str, results: Sequence[Result]) -> float | None:
    known = corruption_mean(table, column, results)
    return known.value if known else None


def own_files(folder: Path, kinds: Sequence[str], **stated: object) -> Path:
    """Write certificate files of one image for each kind, with a radius of 0.4."""
    for number, kind in enumerate(kinds):
        write(folder / f"fixed-{number}.tsv", {"evaluated_on": {"name": "cifar10_c", "kind": kind, **stated}})
    return folder


def write(path: Path, stated: Mapping[str, object], images: Iterable[int] = (0,), radius: float = 0.4) -> None:
    file = CertificateFile(path, {**HEADER, **stated})
    for index in images:
        file.append(Row(index, 1, 1, radius, 0.1, 1000, {1: 990}, "digest"))


def test_own_files_are_known_by_their_headers(tmp_path: Path) -> None:
    """Their names are digests, and the images of one severity count from 0 whatever it is."""
    files = own_files(tmp_path, list(KINDS["cifar10_c"].values()), severity=3)
    at_three, at_one, every = (tables.load(name) for name in ("catrs-18", "catrs-14", "catrs-13"))
    row = at_three.row("CAT-RS")
    assert shown(at_three, "Fog", results_from(at_three, row, files)) == pytest.approx(0.4)
    assert shown(at_three, "mACR", results_from(at_three, row, files)) == pytest.approx(0.4)
    assert corruption_mean(at_one, "Fog", results_from(at_one, row, files)) is None
    assert corruption_mean(every, "acr_severity1", results_from(every, row, files)) is None
    assert shown(every, "acr_severity3", results_from(every, row, files)) == pytest.approx(0.4)
    assert corruption_mean(every, "macr", results_from(every, row, files)) is None


def test_mean_is_of_the_papers_fifteen_kinds(tmp_path: Path, logs: Path) -> None:
    every = tables.load("catrs-13")
    published = results_from(every, every.row("CAT-RS"), logs / "cifar10c-sigma0.25-cat-rs")
    assert corruption_mean(every, "macr", published[1:]) is None
    files = own_files(tmp_path, [*KINDS["cifar10_c"].values(), "gaussian_blur", "saturate"], severity=1)
    at_one = tables.load("catrs-14")
    results = results_from(at_one, at_one.row("CAT-RS"), files)
    assert shown(at_one, "mACR", results) == pytest.approx(0.4)
    assert corruption_mean(at_one, "Gaussian", results[1:]) is None  # Gaussian blur is not Gaussian noise


def all_files(folder: Path, name: str = "cifar10_c", turns: Sequence[Mapping[str, Any]] = ({},)) -> Path:
    """Write a file for every kind, of all severities if it has any, with every fifth image; the headers take turns."""
    severity = {"severity": 0} if name == "cifar10_c" else {}
    folder.mkdir(exist_ok=True)
    for number, kind in enumerate(KINDS[name].values()):
        other = {"evaluated_on": {"name": name, "kind": kind, **severity}}
        stated = {"dataset": name, "images": 500, "every": 5, **other, **turns[number % len(turns)]}
        write(folder / f"fixed-{number}.tsv", stated, range(0, 500, 5)[: stated.get("most")])
    return folder


def grouped(name: str, folder: Path, label: str = "CAT-RS") -> tuple[tables.PaperTable, list[list[Result]]]:
    table = tables.load(name)
    return table, group_results(table, results_from(table, table.row(label), folder))


@pytest.mark.parametrize(
    "headers",
    [
        [{"weights": "a"}, {"weights": "b"}],
        [{"seed": 0}, {"seed": 1}],
        [{"engine": "torch"}, {"engine": "openvino_int8"}],
        [{"parameters": {"estimation": 1000, "failure": 0.001}}, {"parameters": {"estimation": 900, "failure": 0.001}}],
    ],
    ids=["weights", "seeds", "int8", "samples"],
)
def test_kinds_certified_differently_have_no_mean(headers: list[dict[str, object]], tmp_path: Path) -> None:
    whole, (only,) = grouped("catrs-13", all_files(tmp_path / "one"))
    assert shown(whole, "macr", only) == pytest.approx(0.4)
    assert not missing_corruptions(whole, only)
    whole, groups = grouped("catrs-13", all_files(tmp_path / "two", turns=headers))
    assert len(groups) == 2
    assert [shown(whole, "macr", group) for group in groups] == [None, None]
    assert all(missing_corruptions(whole, group) for group in groups)


def test_kind_certified_by_two_engines_counts_once(tmp_path: Path) -> None:
    folder = all_files(tmp_path, turns=[{"engine": "torch"}])
    stated = {"every": 5, "engine": "compile", "images": 500}
    other = {"name": "cifar10_c", "kind": "fog", "severity": 0}
    write(folder / "again.tsv", {**stated, "evaluated_on": other}, range(0, 500, 5))
    whole, (only,) = grouped("catrs-13", folder)
    assert len(only) == 15
    assert shown(whole, "macr", only) == pytest.approx(0.4)


def test_kind_or_severity_of_few_images_is_unknown(tmp_path: Path) -> None:
    """Only one of the images of severity 5 would be in the mean as all of them are."""
    whole, (only,) = grouped("catrs-13", all_files(tmp_path, turns=[{"most": 81}]))
    assert shown(whole, "acr_severity1", only) == pytest.approx(0.4)
    assert shown(whole, "acr_severity5", only) is None
    assert shown(whole, "macr", only) is None
    (words,) = missing_corruptions(whole, only)
    assert words.startswith("fewer images than of the others of gaussian_noise at severity 5, shot_noise at severity 5")


def test_truncated_log_lacks_its_last_severity(logs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cifar10c-sigma0.25-cut"
    shutil.copytree(logs / "cifar10c-sigma0.25-cat-rs", folder)
    lines = (folder / "fog.tsv").read_text().splitlines(keepends=True)
    (folder / "fog.tsv").write_text("".join(lines[:402]))
    at_five, (only,) = grouped("catrs-22", folder)
    assert shown(at_five, "Snow", only) is not None
    assert shown(at_five, "Fog", only) is None
    assert missing_corruptions(at_five, only) == ["fewer images than of the others of fog at severity 5"]


def test_interval_of_an_accuracy_is_that_of_other_tables(tmp_path: Path) -> None:
    """All images right is no proof that all are."""
    every, (only,) = grouped("catrs-25", all_files(tmp_path, "mnist_c"))
    for column in ("Fog", "mAcc"):
        measured = value(every, column, only)
        assert measured is not None
        assert measured.interval == Share(100, 100).interval(0.001)
    radii, (only,) = grouped("catrs-24", tmp_path)
    equal = value(radii, "Fog", only)
    assert equal is not None
    assert equal.value == pytest.approx(0.4)
    assert equal.interval is None, "equal radii do not show how they vary"


def test_kinds_that_the_papers_leave_out_are_ignored(logs: Path, tmp_path: Path) -> None:
    published = tmp_path / "cifar10c-sigma0.25-cat-rs"
    shutil.copytree(logs / published.name, published)
    shutil.copy(published / "fog.tsv", published / "speckle_noise.tsv")
    every, (only,) = grouped("catrs-13", published)
    assert len(only) == 15
    own = all_files(tmp_path / "own")
    for number in (1, 3):
        other = {"name": "cifar10_c", "kind": "gaussian_blur", "severity": 0}
        stated = {"every": 5, "images": 500, "device": str(number), "evaluated_on": other}
        write(own / f"blur-{number}.tsv", stated, range(0, 500, 5))
    every, (only,) = grouped("catrs-13", own)
    assert not missing_corruptions(every, only)
    assert shown(every, "macr", only) == pytest.approx(0.4)


def test_decisions_are_lower_bounds(tmp_path: Path) -> None:
    asked = {"procedure": "sequential", "parameters": {"radii": [0.4], "failure": 0.001}}
    every, (only,) = grouped("catrs-13", all_files(tmp_path, turns=[asked]))
    measured = value(every, "macr", only)
    assert measured is not None
    assert measured.value == pytest.approx(0.4)
    assert not measured.exact
    assert measured.interval is None


def test_dataset_without_kinds_is_refused(tmp_path: Path) -> None:
    text = tables.find("catrs-13").read_text().replace('dataset = "cifar10_c"', 'dataset = "cifar100_c"')
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(TableError, match="dataset = 'cifar100_c', expected one of cifar10_c, mnist_c for corruptions"):
        tables.read(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"dataset": "cifar10"}, "was made on cifar10; "),
        ({"evaluated_on": {"name": "corrupted", "kind": "fog", "severity": 1}}, "was made on corrupted; "),
    ],
)
def test_files_of_other_images_are_refused_for_corruptions(
    stated: dict[str, object], words: str, tmp_path: Path
) -> None:
    """Neither the clean test images nor those that `radii corrupt` made."""
    file = CertificateFile(tmp_path / "fog.tsv", {**HEADER, **stated})
    file.append(Row(0, 1, 1, 0.4, 0.1, 1000, {1: 990}, "digest"))
    every = tables.load("catrs-13")
    with pytest.raises(TableError, match=words):
        results_from(every, every.row("CAT-RS"), tmp_path)


def test_log_without_a_kind_in_its_name_is_refused(logs: Path, tmp_path: Path) -> None:
    shutil.copy(logs / "cifar10c-sigma0.25-cat-rs" / "fog.tsv", tmp_path / "cat-rs.tsv")
    every = tables.load("catrs-13")
    with pytest.raises(TableError, match="is not named after a kind of corruption of cifar10_c"):
        results_from(every, every.row("CAT-RS"), tmp_path / "cat-rs.tsv")

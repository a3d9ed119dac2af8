"""Values measured here, over seeds, with their intervals and differences to the reported numbers."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from radii.papers import tables
from radii.papers.external import results_from
from radii.papers.match import Result, group_results, match_runs, scan_runs
from radii.papers.values import Measured, as_precise, difference, value
from tests.papers.samples import LABEL, copy_gaussian

CATRS_3 = tables.load("catrs-3")


def test_published_log_equals_the_reported_row(logs: Path) -> None:
    """The log of the reported model: every accuracy within the rounding of the print."""
    table = tables.load("consistency-7")
    row = table.row("Gaussian + Consistency, lambda=10, sigma 0.50")
    results = results_from(table, row, logs / "cifar10-sigma0.50-consistency.tsv")
    for column, printed in row.reported.items():
        measured = value(table, column, results)
        assert measured is not None
        gap = difference(measured, printed, 2 if column.startswith("r") else 0)
        assert gap is not None
        assert abs(gap.value) <= 0.00051
        assert gap.interval is not None
        assert gap.interval[0] < 0 < gap.interval[1]


def wrong(line: str) -> str:
    """Return a line of a certificate file with a wrong prediction."""
    index, label, _, radius, _, *rest = line.split("\t")
    return "\t".join([index, label, str((int(label) + 1) % 10), radius, "0", *rest])


def group_of_seeds(folder: Path, wrong_rows: Sequence[int]) -> list[Result]:
    """Return the results of one row from a run for each seed, with so many predictions made wrong."""
    for seed, count in enumerate(wrong_rows):
        (file,) = (copy_gaussian(folder, seed) / "certificates").glob("*.tsv")
        head, *rows = file.read_text().splitlines(keepends=True)
        file.write_text("".join([head, *map(wrong, rows[:count]), *rows[count:]]))
    (group,) = group_results(CATRS_3, match_runs(CATRS_3, scan_runs([folder]))[LABEL])
    return group


def test_value_over_seeds_has_a_deviation(tmp_path: Path) -> None:
    group = group_of_seeds(tmp_path, (0, 7, 14))
    mean = value(CATRS_3, "acr", group)
    singles = [value(CATRS_3, "acr", [result]) for result in group]
    assert mean is not None
    assert mean.deviation is not None
    assert mean.interval is not None
    assert mean.value == pytest.approx(sum(single.value for single in singles if single) / 3)
    assert mean.deviation > 0
    wide = [single.interval for single in singles if single and single.interval]
    assert mean.interval[1] - mean.interval[0] > min(high - low for low, high in wide)
    spread = value(tables.load("catrs-12"), "acr_std", group)
    assert spread is not None
    assert spread.value == pytest.approx(mean.deviation)


def test_interval_over_seeds_has_only_possible_values(tmp_path: Path) -> None:
    """Student's t of two seeds reaches far below 0 and above 1."""
    group = group_of_seeds(tmp_path, (0, 250))
    accuracy, acr = (value(CATRS_3, column, group) for column in ("r0.00", "acr"))
    assert accuracy is not None
    assert accuracy.interval == (0.0, 1.0)
    assert acr is not None
    assert acr.interval is not None
    assert acr.interval[0] == 0


def test_difference_includes_the_rounding_of_the_printed_number() -> None:
    gap = difference(Measured(0.5, interval=(0.4, 0.6)), Decimal("0.50"))
    assert gap is not None
    assert gap.interval == pytest.approx((-0.105, 0.105))
    percent = difference(Measured(0.5, interval=(0.4, 0.6)), Decimal("50.0"), 2)
    assert percent is not None
    assert percent.interval == pytest.approx((-0.1005, 0.1005))


def test_difference_adds_no_rounding() -> None:
    """0.986 - 0.992 is -0.006, of which a double is a little less."""
    gap = difference(Measured(0.986), Decimal("99.2"), 2)
    assert gap is not None
    assert gap.value == -0.006


def test_whole_number_gets_the_digits_of_its_row() -> None:
    """MACER prints 0 beside 0.99: not a number between -0.5 and 0.5."""
    macer_6 = tables.load("macer-6")
    row = macer_6.row("Gaussian, sigma 0.25")
    assert str(row.reported["r1.00"]) == "0"
    assert str(as_precise(row, "r1.00")) == "0.00"
    assert as_precise(row, "acr") == row.reported["acr"]
    whole = replace(row, reported={"r0.00": 67, "r0.25": 0})
    assert as_precise(whole, "r0.25") == 0


def test_bound_has_no_difference() -> None:
    assert difference(Measured(0.5, exact=False), Decimal("0.50")) is None
    assert difference(Measured(0.5), "PGD") is None

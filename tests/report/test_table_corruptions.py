"""Corruptions: the published logs give the numbers that the paper prints."""

from decimal import Decimal
from pathlib import Path

import pytest

from radii.experiment import table
from radii.experiment.table_files import results_from
from radii.report.table_corruptions import corrupted
from radii.report.table_values import difference, shift_of, value


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


def test_kind_without_a_file_is_unknown(logs: Path) -> None:
    found = table.read(table.find("catrs-14"))
    results = results_from(found, found.row("CAT-RS"), logs / "cifar10c-sigma0.25-cat-rs")
    assert corrupted(found, "Fog", [each for each in results if "fog" not in each.source]) is None

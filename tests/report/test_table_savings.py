"""Speed-up and saving of transfer, from the times that the paper reports."""

import pytest

from radii.experiment import table
from radii.report.table_savings import Saving, reported, saving, savings


def test_papers_saving_is_87_84_per_cent() -> None:
    """CRT 4.3: three architectures, 10.75 times per epoch, 8.06 times in all, 87.84 % of the hours."""
    found = saving(table.read(table.find("crt-4")), reported)
    assert found is not None
    assert f"{100 * found.share:.2f}" == "87.84"
    assert sum(found.taught) == pytest.approx(11.70)
    assert f"{found.speed_up:.2f}" == "8.06"
    assert f"{sum(found.epoch_ratios) / len(found.epoch_ratios):.2f}" == "10.75"


def test_teacher_lowers_the_saving() -> None:
    """The teacher's 18.98 hours are spent either way: they count on both sides."""
    found = saving(table.read(table.find("crt-4")), reported)
    assert found is not None
    assert found.teacher == pytest.approx(18.98)
    assert found.share_with_teacher is not None
    assert found.share_with_teacher == pytest.approx(1 - (18.98 + 11.70) / (18.98 + 96.20))
    assert found.share_with_teacher < found.share


def test_times_that_have_the_teacher_are_not_given_it_twice() -> None:
    found = saving(table.read(table.find("crt-5")), reported)
    assert found == Saving([18.98], [10.07], None, [])


def test_only_tables_with_both_kinds_of_rows_have_one() -> None:
    without = [name for name in table.names() if savings(table.read(table.find(name)), {}) is None]
    assert set(table.names()) - set(without) == {"crt-4", "crt-5"}

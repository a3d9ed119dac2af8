"""Speed-up and saving of transfer, from the times that the paper reports."""

from pathlib import Path

import pytest

from radii.papers import tables
from radii.papers.match import Result, ScannedRun
from radii.papers.savings import Saving, reported_time, saving, savings_table
from radii.runs.run import Run


def test_papers_saving_is_87_84_per_cent() -> None:
    """CRT 4.3: three architectures, 10.75 times per epoch, 8.06 times in all, 87.84 % of the hours."""
    saved = saving(tables.load("crt-4"), reported_time)
    assert saved is not None
    assert f"{100 * saved.share:.2f}" == "87.84"
    assert sum(saved.taught) == pytest.approx(11.70)
    assert f"{saved.speed_up:.2f}" == "8.06"
    assert f"{sum(saved.epoch_ratios) / len(saved.epoch_ratios):.2f}" == "10.75"


def test_teacher_lowers_the_saving() -> None:
    """The teacher's 18.98 hours are spent either way: they count on both sides."""
    saved = saving(tables.load("crt-4"), reported_time)
    assert saved is not None
    assert saved.teacher == pytest.approx(18.98)
    assert saved.share_with_teacher is not None
    assert saved.share_with_teacher == pytest.approx(1 - (18.98 + 11.70) / (18.98 + 96.20))
    assert saved.share_with_teacher < saved.share


def test_teacher_is_not_added_to_times_that_include_it() -> None:
    saved = saving(tables.load("crt-5"), reported_time)
    assert saved == Saving((18.98,), (10.07,), None, [])


def test_only_tables_of_direct_and_taught_rows_have_savings() -> None:
    without = [name for name in tables.names() if savings_table(tables.load(name), {}) is None]
    assert set(tables.names()) - set(without) == {"crt-4", "crt-5"}


def test_times_of_two_budgets_are_not_compared(tmp_path: Path) -> None:
    """A teacher's method at six epochs and a student at three hundred would save nothing."""
    crt_4 = tables.load("crt-4")
    direct, taught = crt_4.row("SmoothMix, DLA"), crt_4.row("CRT, DLA")

    def result(row: tables.Row, seconds: float, budget: str) -> Result:
        run = Run(tmp_path / f"{row.label[:3]}{budget}{seconds}")
        run.path.mkdir()
        run.history_file.write_text(f"epoch,seconds\n0,{seconds}\n1,{seconds}\n")
        assert row.system is not None
        return Result(row, str(run.path), ScannedRun(run, row.system.load_recipe()), budget=budget)

    results = {direct.label: [result(direct, 800.0, "small")], taught.label: [result(taught, 900.0, "medium")]}
    alone = savings_table(crt_4, results)
    assert alone is not None
    assert [row[0].text for row in alone.rows] == ["reported"]
    results[taught.label].append(result(taught, 100.0, "small"))
    both = savings_table(crt_4, results)
    assert both is not None
    assert [(row[0].text, row[3].text) for row in both.rows][1:] == [("here, small", "8.00 ×")]  # noqa: RUF001

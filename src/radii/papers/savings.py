"""Speed-up and saving of transfer over training every architecture with the teacher's method (CRT, Tables 4 and 5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from radii.papers.match import Results, group_results
from radii.papers.tables import PaperTable, Row
from radii.papers.values import value
from radii.reports.tables import Table, text_table
from radii.reports.text import UNKNOWN, down

TOTALS = ("total_time_h", "total_hours")
EPOCHS = ("epoch_time_s", "sec_per_epoch")
HEAD = ("", "Generations", "Speed-up of an epoch", "Speed-up in all", "By the method, h", "By transfer, h", "Saved")
TimeOf = Callable[[Row, str], float | None]
"""A function that returns the time of a row in a column; None where it is unknown."""


@dataclass(frozen=True)
class Saving:
    """Hours of the architectures that were trained both directly and by transfer, in the order of the rows."""

    direct: Sequence[float]
    taught: Sequence[float]
    teacher: float | None = None
    """The hours of the first teacher."""
    epoch_ratios: Sequence[float] = ()

    @property
    def speed_up(self) -> float:
        """The mean over the architectures of direct hours divided by hours of transfer."""
        return fmean(slow / fast for slow, fast in zip(self.direct, self.taught, strict=True))

    @property
    def share(self) -> float:
        """The saved share of the hours, without the teacher's, which are spent either way."""
        return 1 - sum(self.taught) / sum(self.direct)

    @property
    def share_with_teacher(self) -> float | None:
        """The saved share with the first teacher's hours on both sides."""
        if self.teacher is None:
            return None
        return 1 - (self.teacher + sum(self.taught)) / (self.teacher + sum(self.direct))


def saving(table: PaperTable, time_of: TimeOf) -> Saving | None:
    """Return what transfer saves; None for a table without times of both a direct and a taught row."""
    total, epoch = (next((column for column in table.columns() if column in names), None) for names in (TOTALS, EPOCHS))
    if total is None:
        return None
    pairs = [(direct, taught) for direct, taught in _pairs(table) if time_of(direct, total) and time_of(taught, total)]
    if not pairs:
        return None
    direct_hours, taught_hours = zip(*_times(pairs, total, time_of), strict=True)
    ratios = [slow / fast for slow, fast in _times(pairs, epoch, time_of)] if epoch else []
    return Saving(direct_hours, taught_hours, _teacher_hours(table, pairs[0][1], total, time_of), ratios)


def _times(pairs: Sequence[tuple[Row, Row]], column: str, time_of: TimeOf) -> list[tuple[float, float]]:
    """Return the times of those pairs of rows that both have one."""
    times = [(time_of(direct, column), time_of(taught, column)) for direct, taught in pairs]
    return [(slow, fast) for slow, fast in times if slow and fast]


def _pairs(table: PaperTable) -> list[tuple[Row, Row]]:
    """Return, for each architecture, its row by the method itself and its row by transfer."""

    def model(row: Row) -> str:
        return str(row.system.load_recipe().model) if row.system else ""

    direct = {model(row): row for row in table.rows if row.system and row.system.teacher is None}
    taught = [row for row in table.rows if row.system and row.system.teacher]
    return [(direct[model(row)], row) for row in taught if model(row) in direct]


def _teacher_hours(table: PaperTable, student: Row, total: str, time_of: TimeOf) -> float | None:
    """Return the hours of the first student's teacher; None if the reported times include them, or if unknown."""
    if table.teacher_time:
        return None
    own = [row for row in table.rows if row.system and student.system and row.system == student.system.teacher]
    return time_of(own[0], total) if own else None


def reported_time(row: Row, column: str) -> float | None:
    """Return the time that the paper reports."""
    cell = row.reported.get(column)
    return None if cell is None or isinstance(cell, str) else float(cell)


def savings_table(table: PaperTable, results: Results) -> Table | None:
    """Return speed-up and saving as reported and as measured here, by budget; None for tables without them."""
    known = {"reported": saving(table, reported_time)}
    for budget in sorted({result.budget for row_results in results.values() for result in row_results}):
        known[f"here, {budget or 'other budgets'}"] = saving(table, _measured_time(table, results, budget))
    rows = [_cells(name, saved) for name, saved in known.items() if saved]
    return text_table(HEAD, rows) if rows else None


def _measured_time(table: PaperTable, results: Results, budget: str) -> TimeOf:
    """Return a function that gives the times of one budget; times of different budgets are not compared."""

    def time_of(row: Row, column: str) -> float | None:
        groups = group_results(table, [result for result in results.get(row.label, ()) if result.budget == budget])
        measured = value(table, column, groups[0]) if groups else None
        return None if measured is None else measured.value

    return time_of


def _cells(name: str, saving: Saving) -> list[str]:
    with_teacher = saving.share_with_teacher
    saved = f"{100 * saving.share:.2f} %"
    return [
        name,
        str(len(saving.direct)),
        f"{down(fmean(saving.epoch_ratios), 2)} ×" if saving.epoch_ratios else UNKNOWN,  # noqa: RUF001
        f"{down(saving.speed_up, 2)} ×",  # noqa: RUF001
        f"{sum(saving.direct):.4g}",
        f"{sum(saving.taught):.4g}",
        saved if with_teacher is None else f"{saved}, with the first teacher {100 * with_teacher:.2f} %",
    ]

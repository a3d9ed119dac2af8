"""Speed-up and saving of transfer over training every architecture by the teacher's method (CRT, Tables 4 and 5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from radii.papers.table import PaperTable, Row
from radii.papers.table_lines import Results
from radii.papers.table_values import groups, value
from radii.reports.summary import UNKNOWN, down
from radii.reports.tables import Cell, Table

TOTALS = ("total_time_h", "total_hours")
EPOCHS = ("epoch_time_s", "sec_per_epoch")
HEAD = ("", "Generations", "Speed-up of an epoch", "Speed-up in all", "By the method, h", "By transfer, h", "Saved")
Times = Callable[[Row, str], float | None]


@dataclass(frozen=True)
class Saving:
    """Architectures that were trained both directly and by transfer: hours of each, in the order of the rows."""

    direct: Sequence[float]
    taught: Sequence[float]
    teacher: float | None = None
    """The hours of the first teacher."""
    epoch_ratios: Sequence[float] = ()

    @property
    def speed_up(self) -> float:
        """The mean over the architectures of how many times less training takes."""
        return fmean(slow / fast for slow, fast in zip(self.direct, self.taught, strict=True))

    @property
    def share(self) -> float:
        """The share of the hours that is saved, the teacher's apart: it is trained either way."""
        return 1 - sum(self.taught) / sum(self.direct)

    @property
    def share_with_teacher(self) -> float | None:
        """The same with the first teacher's hours on both sides."""
        if self.teacher is None:
            return None
        return 1 - (self.teacher + sum(self.taught)) / (self.teacher + sum(self.direct))


def saving(table: PaperTable, time: Times) -> Saving | None:
    """What transfer saves by the times that `time` gives for a row and a column; none where there are no pairs."""
    total, epoch = _column(table, TOTALS), _column(table, EPOCHS)
    if total is None:
        return None
    pairs = [(a, b) for a, b in _pairs(table) if time(a, total) and time(b, total)]
    if not pairs:
        return None
    hours = [(time(a, total) or 0.0, time(b, total) or 0.0) for a, b in pairs]
    ratios = [(time(a, epoch), time(b, epoch)) for a, b in pairs] if epoch else []
    return Saving(
        [slow for slow, _ in hours],
        [fast for _, fast in hours],
        _teacher(table, pairs, total, time),
        [slow / fast for slow, fast in ratios if slow and fast],
    )


def _column(table: PaperTable, wanted: Sequence[str]) -> str | None:
    return next((column for column in table.columns() if column in wanted), None)


def _pairs(table: PaperTable) -> list[tuple[Row, Row]]:
    """Every architecture's row by the method itself, and its row by transfer."""
    direct = {_model(row): row for row in table.rows if row.system and row.system.teacher is None}
    taught = [row for row in table.rows if row.system and row.system.teacher]
    return [(direct[_model(row)], row) for row in taught if _model(row) in direct]


def _model(row: Row) -> str:
    return str(row.system.read().model) if row.system else ""


def _teacher(table: PaperTable, pairs: Sequence[tuple[Row, Row]], total: str, time: Times) -> float | None:
    """The hours of the first teacher: its own row's; nothing where the students' times have them already."""
    if table.teacher_time:
        return None
    taught = pairs[0][1].system
    own = [row for row in table.rows if row.system and taught and row.system == taught.teacher]
    return time(own[0], total) if own else None


def reported(row: Row, column: str) -> float | None:
    """The time that the paper reports."""
    found = row.reported.get(column)
    return None if found is None or isinstance(found, str) else float(found)


def savings(table: PaperTable, results: Results) -> Table | None:
    """The speed-up and saving as reported and as measured here; none for tables without both kinds of rows."""
    known = {"reported": saving(table, reported)}
    for budget in sorted({each.budget for some in results.values() for each in some}):
        known[f"here, {budget or 'other budgets'}"] = saving(table, _measured(table, results, budget))
    rows = [_row(name, each) for name, each in known.items() if each]
    return Table(HEAD, [[Cell(text) for text in row] for row in rows]) if rows else None


def _measured(table: PaperTable, results: Results, budget: str) -> Times:
    """The times of one budget: those of two are not compared."""

    def here(row: Row, column: str) -> float | None:
        found = groups(table, [each for each in results.get(row.label, ()) if each.budget == budget])
        measured = value(table, column, found[0]) if found else None
        return None if measured is None else measured.value

    return here


def _row(name: str, each: Saving) -> list[str]:
    with_teacher = each.share_with_teacher
    saved = f"{100 * each.share:.2f} %"
    return [
        name,
        str(len(each.direct)),
        f"{down(fmean(each.epoch_ratios), 2)} ×" if each.epoch_ratios else UNKNOWN,  # noqa: RUF001
        f"{down(each.speed_up, 2)} ×",  # noqa: RUF001
        f"{sum(each.direct):.4g}",
        f"{sum(each.taught):.4g}",
        saved if with_teacher is None else f"{saved}, with the first teacher {100 * with_teacher:.2f} %",
    ]

"""Every table of the papers in one line: its rows done, not made yet and missing, and what they would cost."""

from collections import Counter
from collections.abc import Mapping, Sequence

from radii.papers.table import PaperTable, Row
from radii.papers.table_corruptions import all_kinds
from radii.papers.table_lines import Results
from radii.papers.table_runs import Result
from radii.papers.table_values import groups
from radii.reports.facts import duration
from radii.reports.summary import UNKNOWN
from radii.reports.tables import Cell, Table

HEAD = ("Table", "Kind", "Dataset", "Rows", "Done", "Not made yet", "Missing", "Cost of those not made", "Title")
Costs = Mapping[str, Mapping[str, float]]
"""Estimated seconds of the rows of a table, by label, each by its parts: what two rows share is made once."""


def overview(every: Sequence[tuple[PaperTable, Results, Costs]]) -> Table:
    """A line for every table."""
    return Table(HEAD, [[Cell(text) for text in _line(*each)] for each in every])


def _line(table: PaperTable, results: Results, costs: Costs) -> list[str]:
    done = [row for row in table.rows if complete(table, results, row)]
    missing = [row for row in table.rows if row.why and row not in done]
    waiting = not_made(table, results)
    return [
        table.name,
        table.kind,
        ", ".join(table.dataset),
        str(len(table.rows)),
        _done(len(done), [complete(table, results, row) for row in done]) if table.kind != "settings" else UNKNOWN,
        str(len(waiting)) if table.kind != "settings" else UNKNOWN,
        str(len(missing)),
        _cost([costs.get(label) for label in waiting]),
        table.title,
    ]


def costs_of_rows(table: PaperTable, results: Results, costs: Costs) -> Table:
    """What each row that has no result would cost, as far as that is known."""
    waiting = [label for label in not_made(table, results) if label in costs]
    return Table(("Row", "Cost"), [[Cell(label), Cell(_cost([costs[label]]))] for label in waiting])


def not_made(table: PaperTable, results: Results) -> list[str]:
    """The labels of the rows that can be made and have no result, or one of fewer seeds than the paper's."""
    if table.kind == "settings":
        return []
    return [row.label for row in table.rows if not row.why and not complete(table, results, row)]


def complete(table: PaperTable, results: Results, row: Row) -> list[Result]:
    """The results of a row that are all of what the paper's numbers are: of as many seeds, or of all corruptions."""
    found = [each for each in results.get(row.label, ()) if each.complete]
    enough = [each for each in groups(table, found) if len(each) >= table.seeds and all_kinds(table, each)]
    return [each for group in enough for each in group]


def _done(count: int, found: Sequence[Sequence[Result]]) -> str:
    """How many rows have a result, and at which budgets."""
    names = Counter(name for some in found for name in {each.budget or "other budgets" for each in some})
    return f"{count} ({', '.join(f'{name} {number}' for name, number in sorted(names.items()))})" if count else "0"


def _cost(rows: Sequence[Mapping[str, float] | None]) -> str:
    known = [each for each in rows if each is not None]
    if not known:
        return UNKNOWN
    parts = {name: seconds for each in known for name, seconds in each.items()}
    text = f"about {duration(sum(parts.values()))}"
    return text if len(known) == len(rows) else f"{text} for {len(known)} of {len(rows)}"

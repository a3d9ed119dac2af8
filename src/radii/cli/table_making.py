"""Making the rows of a table from the command line: the cheapest first, and on to the next where one fails."""

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from radii.cli.app import console, in_words
from radii.cli.progress import CertificationBar, CountingBar, TrainingBar
from radii.errors import RunWarning
from radii.papers.budgets import Budget
from radii.papers.table import PaperTable, Row
from radii.papers.table_corruptions import all_kinds
from radii.papers.table_runs import results_of, runs_in
from radii.papers.table_values import groups
from radii.reports.facts import duration

if TYPE_CHECKING:
    from radii.papers.table_run import Maker

RUNS = Path("runs")


def make_rows(
    table: PaperTable,
    budget: Budget,
    seeds: int | None,
    only: Sequence[str],
    folder: Path,
    data: Path | None,
    workers: int | None,
    executor: Executor | None = None,
) -> None:
    """Train and certify the rows that have no result of this budget and seed; raises at the end where some failed."""
    from radii.papers.table_run import Maker

    seeds = table.seeds if seeds is None else seeds
    if seeds < 1:
        raise ValueError(f"seeds = {seeds}, expected a whole number >= 1")
    if table.kind == "settings":
        raise ValueError(f"{table.name} is a table of settings: it has no rows to train, leave --run out")
    if data is not None and not data.is_dir():
        raise ValueError(f"there is no folder {data} to read the data from")
    chosen = chosen_rows(table, only)
    for row in chosen:
        if row.why:
            say(f"{row.label}: missing: {row.why}")
    ordered = _cheapest_first(table, chosen, budget)
    wanted = [(row, seed) for seed in range(seeds) for row in ordered]
    maker = Maker(folder, budget, data, workers, executor=executor)
    failed = sum(not _made(maker, table, row, seed) for row, seed in wanted)
    if failed:
        raise ValueError(f"{failed} of {len(wanted)} trainings of {table.name} could not be made: see above")


def chosen_rows(table: PaperTable, only: Sequence[str]) -> list[Row]:
    """The rows whose label has one of these parts; all where none is named."""
    chosen = [row for row in table.rows if not only or any(part.casefold() in row.label.casefold() for part in only)]
    if not chosen:
        raise ValueError(f"no row of {table.name} has {' or '.join(map(repr, only))} in its label")
    return chosen


def _made(maker: "Maker", table: PaperTable, row: Row, seed: int) -> bool:
    """Make a row unless it is there; False, with the reason, where that fails."""
    from radii.papers.table_run import Listeners

    if _is_done(table, row, seed, maker.budget, maker.folder):
        say(f"{row.label}, seed {seed}: done before")
        return True
    try:
        certifying = CertificationBar(console, independent=table.kind != "corruptions")
        with TrainingBar(console) as training, certifying as images, CountingBar(console) as votes:
            listeners = Listeners(training, images, votes)
            made = replace(maker, listeners=listeners).make(table, row, seed)
    except (ValueError, LookupError, OSError) as error:
        say(f"{row.label}, seed {seed}: not made: {in_words(error)}")
        return False
    say(f"{row.label}, seed {seed}: {made.path}")
    return True


def _is_done(table: PaperTable, row: Row, seed: int, budget: Budget, folder: Path) -> bool:
    """Whether there is a complete result of this row, budget and seed in the folder that rows are made in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)  # a run that is only begun is no news here
        found = results_of(table, runs_in([folder]))[row.label]
    finished = [each for each in found if each.run and each.run.finished]
    wanted = [each for each in finished if (each.budget, each.seed) == (budget.name, seed)]
    return any(all_kinds(table, group) for group in groups(table, wanted))


def _cheapest_first(table: PaperTable, rows: Sequence[Row], budget: Budget) -> list[Row]:
    costs = costs_of(table, budget, measure=True, only=[row.label for row in rows])
    seconds = {label: sum(parts.values()) for label, parts in costs.items()}
    able = sorted((row for row in rows if row.label in seconds), key=lambda row: seconds[row.label])
    for row in able:
        say(f"{row.label}: about {duration(seconds[row.label])}, an estimate from a few timed steps")
    return able


def costs_of(
    table: PaperTable,
    budget: Budget,
    *,
    measure: bool,
    again: bool = False,
    only: Sequence[str] | None = None,
) -> dict[str, dict[str, float]]:
    """The estimated seconds of rows, by label and part; what is not known is timed if `measure`, all if `again`."""
    from radii.papers.table_cost import row_cost
    from radii.papers.table_timing import Timings

    timings = Timings(RUNS, measure=measure, again=again, on_timed=lambda what: say(f"timed: {what}"))
    rows = [row for row in table.rows if only is None or row.label in only]
    found = {row.label: row_cost(table, row, budget, timings) for row in rows}
    return {label: parts for label, parts in found.items() if parts is not None}


def has_timings() -> bool:
    """Whether anything was timed before."""
    return (RUNS / "table-times.json").is_file()


def say(text: str) -> None:
    console.print(text, soft_wrap=True, markup=False)

"""`radii table`: show the papers' tables beside what was measured here, and make their rows."""

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from radii.cli.app import answers, console, in_words, printed_warnings
from radii.cli.arguments import OPTIONS, Cluster, Data, Strings, Switch, Whole, Workers, executor_at, stated_options
from radii.cli.progress import CertificationBar, CountingBar, TrainingBar
from radii.errors import RunWarning
from radii.papers import render, tables
from radii.papers.budgets import Budget, find_budget
from radii.papers.comparison import Costs, costs_of_rows, overview, rows_not_made
from radii.papers.external import results_from
from radii.papers.match import FOLDERS, Result, Results, ScannedRun, group_results, match_runs, scan_runs
from radii.papers.tables import PaperTable, Row
from radii.papers.values import missing_corruptions
from radii.reports import tables as writers
from radii.reports.text import duration, plain

if TYPE_CHECKING:
    from radii.papers.make import Maker

RUNS = Path("runs")
MADE = RUNS / "tables"
"""The folder that rows are made in."""
Paths = Annotated[list[Path] | None, Parameter(negative="", json_list=False)]


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Options:
    """What `radii table` takes beside the name of a table."""

    run: Switch = False
    """Train and certify the rows that are not made at this budget, the cheapest first; a second call continues."""
    budget: str = "small"
    """What a row may cost: small, medium or paper, as tables/budgets.toml states them."""
    only: Strings = None
    """Make or time only rows whose label contains this."""
    seeds: Whole | None = None
    """How many trainings of each row to make, with the seeds 0, 1, ...; by default as many as the paper's."""
    time: Switch = False
    """Time a few steps and samples of every row that is not made, to estimate its cost, best with nothing else running.
    Of all tables that takes long, and what was timed before is left; of one it is timed again. Times are kept in
    runs/table-times.json."""
    from_: Annotated[Paths, Parameter(name="--from")] = None
    """A certificate file, ours or published, or a folder of them, to show as the row that --row names."""
    row: Strings = None
    """The row that --from is for: its label, or a part that no other label has."""
    in_: Annotated[Paths, Parameter(name="--in")] = None
    """Folders to look for runs in; by default results and runs."""
    out: Path | None = None
    """A folder to write the table to as HTML, Markdown, LaTeX and CSV."""
    workers: Workers = None
    cluster: Cluster = None
    data: Data = None


DEFAULTS = Options()
OF_ALL_TABLES = ("--budget", "--time", "--in")
TO_MAKE_ROWS = ("--cluster", "--workers", "--seeds", "--data")


def table(name: str | None = None, /, *, options: Options = DEFAULTS) -> None:
    """Show the papers' tables beside what was measured here: all of them, or one; --run makes the missing rows.

    Args:
        name: A table, such as crt-2, or a table file; without it, every table with its rows done and missing.
    """
    budget = find_budget(options.budget)
    stated = stated_options(options)
    with printed_warnings():
        if name is None:
            if of_one := [flag for flag in stated if flag not in OF_ALL_TABLES]:
                raise ValueError(
                    f"{of_one[0]} belongs to one table. Name the table, such as `radii table crt-2 {of_one[0]}`."
                )
            return _print_overview(scan_runs(_folders(options.in_)), budget, options.time)
        shown, only = tables.load(name), options.only or ()
        if options.run:
            with executor_at(options.cluster, options.workers) as executor:
                _make_rows(shown, budget, options, executor)
        elif making := [flag for flag in stated if flag in TO_MAKE_ROWS]:
            raise ValueError(
                f"{making[0]} {stated[making[0]]} is for the rows that --run makes. Leave it out, or add --run."
            )
        elif only and not options.time:
            raise ValueError(f"--only {only[0]} is for rows that are made or timed. Add --run or --time.")
        results = match_runs(shown, scan_runs({*_folders(options.in_), *([MADE] if MADE.is_dir() else [])}))
        _add_files(shown, results, options.from_ or (), options.row or ())
        costs = _costs([(shown, results)], budget, options.time, only)[shown.name]
    return _print_table(shown, results, costs, budget, options.out)


def _folders(paths: Sequence[Path] | None) -> list[Path]:
    """Return the folders to look for runs in; raise a ValueError for a named one that does not exist."""
    for path in paths or ():
        if not path.is_dir():
            raise ValueError(f"There is no folder {path} to look for runs in. Name an existing one with --in.")
    return list(paths or (path for path in map(Path, FOLDERS) if path.is_dir()))


def _add_files(
    shown: PaperTable, results: dict[str, list[Result]], files: Sequence[Path], labels: Sequence[str]
) -> None:
    """Add results from the files of --from to the rows of --row, unless they are there already."""
    if len(files) != len(labels):
        raise ValueError(f"--from and --row go in pairs. There are {len(files)} of --from, {len(labels)} of --row.")
    known = {label: {result.file.resolve() for result in some if result.file} for label, some in results.items()}
    for path, label in zip(files, labels, strict=True):
        row = shown.row(label)
        added = results_from(shown, row, path)
        results[row.label] += [
            result for result in added if result.file and result.file.resolve() not in known[row.label]
        ]


# Printing.


def _print_overview(runs: Sequence[ScannedRun], budget: Budget, time: bool) -> None:
    every = [(shown, match_runs(shown, runs)) for shown in map(tables.load, tables.names())]
    costs = _costs(every, budget, time)
    lines = overview([(shown, results, costs[shown.name]) for shown, results in every])
    _answer(writers.terminal(lines))
    answers.print(_estimate(budget) if any(costs.values()) else "Costs: `radii table NAME --time` times a few steps.")


def _print_table(shown: PaperTable, results: Results, costs: Costs, budget: Budget, out: Path | None) -> None:
    # Written before printing, which fails if the terminal lacks a letter.
    page = None if out is None else render.write(shown, results, out)
    _answer(f"{plain(shown.source)}: {plain(shown.title)}\n")
    for title, content in render.sections(shown, results).items():
        _answer(f"{title}\n\n{writers.terminal(content)}")
    if (expected := costs_of_rows(shown, results, costs)).rows:
        _answer(f"Rows not made yet\n\n{writers.terminal(expected)}\n{_estimate(budget)}")
    for text in render.remarks(shown, results):
        _answer(f"- {plain(text)}")
    if page is not None:
        _answer(plain(str(page)))


def _answer(text: str) -> None:
    answers.print(text, soft_wrap=True, markup=False)


def _report(text: str) -> None:
    console.print(text, soft_wrap=True, markup=False)


def _estimate(budget: Budget) -> str:
    return f"Costs are estimates for the budget {budget.name}, from a few timed steps and samples on this machine."


# Costs.


def _costs(
    every: Sequence[tuple[PaperTable, Results]], budget: Budget, time: bool, only: Sequence[str] = ()
) -> dict[str, Costs]:
    """Return the costs of rows without a result, by table, as far as they were timed.

    Torch is imported only if something was timed before, or is to be timed now.
    """
    if not time and not _has_timings():
        return {shown.name: {} for shown, _ in every}
    costs: dict[str, Costs] = {}
    for shown, results in every:
        chosen = {row.label for row in _chosen_rows(shown, only)}
        waiting = [label for label in rows_not_made(shown, results) if label in chosen]
        costs[shown.name] = _row_costs(shown, waiting, budget, measure=time, again=time and len(every) == 1)
    return costs


def _row_costs(
    shown: PaperTable, labels: Sequence[str], budget: Budget, *, measure: bool, again: bool = False
) -> dict[str, dict[str, float]]:
    """Return the estimated seconds of rows, by label and part; what is not known is timed if `measure`."""
    from radii.papers.cost import Timings, row_cost

    timings = Timings(RUNS, measure=measure, again=again, on_timed=lambda what: _report(f"timed: {what}"))
    costs = {row.label: row_cost(shown, row, budget, timings) for row in shown.rows if row.label in labels}
    return {label: parts for label, parts in costs.items() if parts is not None}


def _has_timings() -> bool:
    return (RUNS / "table-times.json").is_file()


# Making rows.


def _make_rows(shown: PaperTable, budget: Budget, options: Options, executor: Executor | None) -> None:
    """Train and certify the rows without a result of this budget and seed, the cheapest first; raise if some failed."""
    from radii.papers.make import Maker

    data = options.data
    seeds = shown.seeds if options.seeds is None else options.seeds
    if seeds < 1:
        raise ValueError(f"--seeds {seeds}: expected a whole number >= 1.")
    if shown.kind == "settings":
        raise ValueError(f"{shown.name} is a table of settings: it has no rows to train. Leave out --run.")
    if data is not None and not data.is_dir():
        raise ValueError(f"There is no folder {data} to read the data from. Name an existing one with --data.")
    rows = _cheapest_first(shown, _chosen_rows(shown, options.only or ()), budget)
    runs, failed = _made_runs(), 0
    maker = Maker(MADE, budget, data, options.workers, executor=executor)
    for row, seed in ((row, seed) for seed in range(seeds) for row in rows):
        if _is_done(shown, row, seed, budget, runs):
            _report(f"{row.label}, seed {seed}: done before")
            continue
        failed += not _make_row(maker, shown, row, seed)
        runs = _made_runs()  # a row may have trained the teacher that is another row
    if failed:
        raise ValueError(
            f"{failed} of {seeds * len(rows)} trainings of {shown.name} could not be made. The reasons are above."
        )


def _made_runs() -> list[ScannedRun]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)  # an unfinished run is expected here
        return scan_runs([MADE])


def _chosen_rows(shown: PaperTable, only: Sequence[str]) -> list[Row]:
    """Return the rows whose label has one of these parts; all rows if none is named."""
    chosen = [row for row in shown.rows if not only or any(part.casefold() in row.label.casefold() for part in only)]
    if not chosen:
        raise ValueError(
            f"No row of {shown.name} has {' or '.join(map(repr, only))} in its label. Choose another part with --only."
        )
    return chosen


def _cheapest_first(shown: PaperTable, rows: Sequence[Row], budget: Budget) -> list[Row]:
    """Sort the rows that can be made by their cost, and report the costs and the missing rows."""
    for row in rows:
        if row.why:
            _report(f"{row.label}: missing: {row.why}")
    costs = _row_costs(shown, [row.label for row in rows], budget, measure=True)
    seconds = {label: sum(parts.values()) for label, parts in costs.items()}
    possible = sorted((row for row in rows if row.label in seconds), key=lambda row: seconds[row.label])
    for row in possible:
        _report(f"{row.label}: about {duration(seconds[row.label])}, an estimate from a few timed steps")
    return possible


def _make_row(maker: "Maker", shown: PaperTable, row: Row, seed: int) -> bool:
    """Make a row and report where it is; return False, and report why, if that fails."""
    from radii.papers.make import Listeners

    try:
        certifying = CertificationBar(console, independent=shown.kind != "corruptions")
        with TrainingBar(console) as training, certifying as images, CountingBar(console) as votes:
            listeners = Listeners(training, images, votes)
            run = replace(maker, listeners=listeners).make(shown, row, seed)
    except (ValueError, LookupError, OSError) as error:
        _report(f"{row.label}, seed {seed}: not made: {in_words(error)}")
        return False
    _report(f"{row.label}, seed {seed}: {run.path}")
    return True


def _is_done(shown: PaperTable, row: Row, seed: int, budget: Budget, runs: Sequence[ScannedRun]) -> bool:
    """Return whether a row already has a complete result for this budget and seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        results = match_runs(replace(shown, rows=(row,)), runs)[row.label]
    same = [result for result in results if result.run and result.run.finished]
    same = [result for result in same if (result.budget, result.seed) == (budget.name, seed)]
    return any(not missing_corruptions(shown, group) for group in group_results(shown, same))

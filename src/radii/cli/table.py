"""The command that shows the papers' tables beside what was measured here, and makes their rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import answers, app, printed_warnings
from radii.cli.arguments import Cluster, Data, Whole, executor_at
from radii.papers import table as tables
from radii.papers import table_page
from radii.papers.budgets import Budget, find_budget
from radii.papers.table import PaperTable
from radii.papers.table_files import results_from
from radii.papers.table_lines import Results
from radii.papers.table_overview import Costs, costs_of_rows, not_made, overview
from radii.papers.table_runs import FOLDERS, Found, Result, results_of, runs_in
from radii.papers.table_text import aligned
from radii.reports.text import plain

MADE = Path("runs") / "tables"
"""Where rows are made."""
Paths = Annotated[list[Path] | None, Parameter(negative="", json_list=False)]
Switch = Annotated[bool, Parameter(negative="")]


@app.command
def table(
    name: str | None = None,
    /,
    *,
    run: Switch = False,
    budget: str = "small",
    only: Annotated[list[str] | None, Parameter(negative="", json_list=False)] = None,
    seeds: Whole | None = None,
    time: Switch = False,
    from_: Annotated[Paths, Parameter(name="--from")] = None,
    row: Annotated[list[str] | None, Parameter(negative="", json_list=False)] = None,
    in_: Annotated[Paths, Parameter(name="--in")] = None,
    out: Path | None = None,
    workers: Whole | None = None,
    cluster: Cluster = None,
    data: Data = None,
) -> None:
    """Show the papers' tables beside what was measured here: all of them, or one; --run makes the missing rows.

    Args:
        name: A table, such as crt-2, or a table file; without it, every table with its rows done and missing.
        run: Train and certify the rows that are not made at this budget, the cheapest first; a second call continues.
        budget: What a row may cost: small, medium or paper, as tables/budgets.toml states them.
        only: Make or time only rows whose label contains this.
        seeds: How many trainings of each row to make, with the seeds 0, 1, ...; by default as many as the paper's.
        time: Time a few steps and samples of every row that is not made, to estimate its cost, best with nothing else
            running. Of all tables that takes long, and what was timed before is left; of one it is timed again.
            Times are kept in runs/table-times.json.
        from_: A certificate file, ours or published, or a folder of them, to show as the row that --row names.
        row: The row that --from is for: its label, or a part that no other label has.
        in_: Folders to look for runs in; by default results and runs.
        out: A folder to write the table to as HTML, Markdown, LaTeX and CSV.
        workers: Processes that certify, and vote on soft labels; by default one for each core, or for each GPU.
    """
    wanted_budget = find_budget(budget)
    making = {"--cluster": cluster, "--workers": workers, "--seeds": seeds, "--data": data}
    with printed_warnings():
        if name is None:
            _refuse({"--run": run, "--from": from_, "--row": row, "--only": only, "--out": out, **making})
            return _print_overview(runs_in(folders(in_)), wanted_budget, time)
        wanted = tables.read(tables.find(name))
        if not run:
            _refuse_without_run(making)
        if only and not (run or time):
            raise ValueError(f"--only {only[0]} is for rows that are made or timed: add --run or --time")
        if run:
            from radii.cli.table_making import make_rows

            with executor_at(cluster, workers) as executor:
                make_rows(wanted, wanted_budget, seeds, only or (), MADE, data, workers, executor)
        found = runs_in({*folders(in_), *([MADE] if MADE.is_dir() else [])})
        results = results_of(wanted, found)
        for label, named in _named(wanted, from_ or (), row or ()).items():
            results[label] = _with(results[label], named)
        costs = _costs([(wanted, results)], wanted_budget, time, only or ())[wanted.name]
    return _print_table(wanted, results, costs, wanted_budget, out)


def _refuse_without_run(given: Mapping[str, object]) -> None:
    """Refuse what is about rows that are made where none are."""
    for flag, value in given.items():
        if value is not None:
            raise ValueError(f"{flag} {value} is for the rows that --run makes: leave it out, or add --run")


def _refuse(given: dict[str, object]) -> None:
    """Refuse what belongs to one table where none is named."""
    if stated := [flag for flag, value in given.items() if value not in (None, False)]:
        raise ValueError(f"{stated[0]} belongs to one table: name it, such as `radii table crt-2 {stated[0]}`")


def folders(named: Sequence[Path] | None) -> list[Path]:
    """The folders to look for runs in; one that is named has to be there."""
    for path in named or ():
        if not path.is_dir():
            raise ValueError(f"there is no folder {path} to look for runs in")
    return list(named or (path for path in map(Path, FOLDERS) if path.is_dir()))


def _named(wanted: PaperTable, files: Sequence[Path], labels: Sequence[str]) -> dict[str, list[Result]]:
    """The results from files that the command line names, by the label of their row."""
    if len(files) != len(labels):
        raise ValueError(f"--from and --row go in pairs: there are {len(files)} of --from, {len(labels)} of --row")
    found: dict[str, list[Result]] = {}
    for path, label in zip(files, labels, strict=True):
        row = wanted.row(label)
        found.setdefault(row.label, []).extend(results_from(wanted, row, path))
    return found


def _with(known: Sequence[Result], named: Sequence[Result]) -> list[Result]:
    """Results and those from files, without what is there already."""
    read = {each.file.resolve() for each in known if each.file}
    return [*known, *(each for each in named if each.file and each.file.resolve() not in read)]


def _print_overview(found: Sequence[Found], budget: Budget, time: bool) -> None:
    read = [tables.read(tables.find(each)) for each in tables.names()]
    every = [(each, results_of(each, found)) for each in read]
    costs = _costs(every, budget, time)
    lines = overview([(each, results, costs[each.name]) for each, results in every])
    answers.print(aligned(lines), soft_wrap=True, markup=False)
    answers.print(_estimate(budget) if any(costs.values()) else "Costs: `radii table NAME --time` times a few steps.")


def _estimate(budget: Budget) -> str:
    return f"Costs are estimates for the budget {budget.name}, from a few timed steps and samples on this machine."


def _costs(
    every: Sequence[tuple[PaperTable, Results]], budget: Budget, time: bool, only: Sequence[str] = ()
) -> dict[str, dict[str, dict[str, float]]]:
    """What rows without a result would cost, as far as that was timed; torch is needed only where any was."""
    from radii.cli.table_making import chosen_rows, costs_of, has_timings

    if not time and not has_timings():
        return {each.name: {} for each, _ in every}
    chosen = {each.name: {row.label for row in chosen_rows(each, only)} for each, _ in every}
    waiting = {
        each.name: [label for label in not_made(each, results) if label in chosen[each.name]] for each, results in every
    }
    again = time and len(every) == 1
    return {each.name: costs_of(each, budget, measure=time, again=again, only=waiting[each.name]) for each, _ in every}


def _print_table(
    wanted: PaperTable, results: dict[str, list[Result]], costs: Costs, budget: Budget, out: Path | None
) -> None:
    page = None if out is None else table_page.write(wanted, results, out)  # first: a terminal may lack a letter
    answers.print(f"{plain(wanted.source)}: {plain(wanted.title)}\n", soft_wrap=True, markup=False)
    for title, content in table_page.sections(wanted, results).items():
        answers.print(f"{title}\n\n{aligned(content)}", soft_wrap=True, markup=False)
    if (expected := costs_of_rows(wanted, results, costs)).rows:
        answers.print(f"Rows not made yet\n\n{aligned(expected)}\n{_estimate(budget)}", soft_wrap=True, markup=False)
    for text in table_page.remarks(wanted, results):
        answers.print(f"- {plain(text)}", soft_wrap=True, markup=False)
    if page is not None:
        answers.print(plain(str(page)), soft_wrap=True, markup=False)

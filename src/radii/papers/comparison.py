"""Compare a paper's table with what was measured here: reported, here, difference, and how each result was made.

The overview has one line for every table: its rows done, not made yet and missing, and what they would cost.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from radii.papers.match import BASELINE, NOISES, Result, Results, group_results, noise_name
from radii.papers.tables import PaperTable, Reported, Row
from radii.papers.values import (
    Measured,
    as_precise,
    difference,
    digits_of,
    missing_corruptions,
    radius_of,
    shift_of,
    value,
)
from radii.reports.metrics import Summary
from radii.reports.protocol import describe_certifier, describe_images
from radii.reports.tables import Table, text_table
from radii.reports.text import UNKNOWN, down, duration, radius_text, up
from radii.runs.certificates import Certificates
from radii.runs.recipe import Recipe

HEADS = {"acr": "ACR", "acr_mean": "ACR, mean", "acr_std": "ACR, deviation", "teacher_acr": "Teacher’s ACR"}  # noqa: RUF001
PROVENANCE_HEAD = (
    *("", "Row", "From", "Budget", "Epochs", "Schedule"),
    *("Test images", "Certifier", "Engine", "Seeds", "Remark"),
)
OVERVIEW_HEAD = (
    *("Table", "Kind", "Dataset", "Rows", "Done", "Not made yet"),
    *("Missing", "Cost of those not made", "Title"),
)
SPREADS = ("acr_std", "epoch_time_ci95_s")
"""Columns of deviations or half intervals."""
TRAINING_FIELDS = ("optimizer", "momentum", "nesterov", "weight_decay", "warmup_epochs", "precision", "batch_norm")
"""Fields of the training that are shown only where they differ from the recipe."""
Costs = Mapping[str, Mapping[str, float]]
"""Estimated seconds by the label of a row, then by run or votes, which rows may share."""


class Group(NamedTuple):
    """Results of a row that differ only in their seeds, and the number that the page shows for them."""

    number: int
    row: Row
    results: Sequence[Result]


def numbered_groups(table: PaperTable, results: Results) -> list[Group]:
    """Return the groups of all rows, in the order of the rows, numbered from 1."""
    groups = [(row, group) for row in table.rows for group in group_results(table, results.get(row.label, ()))]
    return [Group(number, row, group) for number, (row, group) in enumerate(groups, 1)]


# Reported, here, difference.


def comparison(table: PaperTable, results: Results) -> Table:
    """Return every row as reported, then as measured here in each way that it was made, with the difference."""
    columns, groups, baseline = table.columns(), numbered_groups(table, results), results.get(BASELINE, ())
    lines: list[list[str]] = []
    for row in table.rows:
        printed = [UNKNOWN if column not in row.reported else str(row.reported[column]) for column in columns]
        lines.append([row.label, "reported", *printed])
        own = [group for group in groups if group.row is row]
        for group in own:
            lines += _measured_lines(table, columns, group, baseline)
        if table.kind == "settings":
            lines.append(["", "recipe", *(_setting(row, column) for column in columns)])
        elif not own:
            lines.append(["", "missing" if row.why else "not made yet", *("" for _ in columns)])
    return text_table(["", "", *map(column_title, columns)], lines)


def _measured_lines(
    table: PaperTable, columns: Sequence[str], group: Group, baseline: Sequence[Result]
) -> Iterator[list[str]]:
    cells = [
        (value(table, column, group.results, baseline), as_precise(group.row, column), shift_of(table, column))
        for column in columns
    ]
    texts = [_measured_text(*cell, spread=column in SPREADS) for cell, column in zip(cells, columns, strict=True)]
    yield ["", f"here [{group.number}]", *texts]
    differences = zip(*(_difference_texts(*cell) for cell in cells), strict=True)
    for name, line in zip(("difference", "95 % from", "95 % to"), differences, strict=True):
        if name == "difference" or set(line) != {UNKNOWN}:
            yield ["", name, *line]


def column_title(column: str) -> str:
    """Return the title of a column."""
    radius = radius_of(column)
    return HEADS.get(column, column.replace("_", " ")) if radius is None else radius_text(radius)


def _shown_digits(reported: Reported | None) -> int:
    """Return one digit more than is printed, which shows how the value would round."""
    return 3 if reported is None else digits_of(reported) + 1


def _measured_text(measured: Measured | None, reported: Reported | None, shift: int, *, spread: bool) -> str:
    """Return a value as text, rounded down, with its deviation over seeds; a spread itself is rounded up."""
    if measured is None:
        return UNKNOWN
    digits = _shown_digits(reported)
    text = ("" if measured.exact else "≥ ") + (up if spread else down)(measured.value, digits, shift)
    return text if measured.deviation is None else f"{text} ± {up(measured.deviation, digits, shift)}"


def _difference_texts(measured: Measured | None, reported: Reported | None, shift: int) -> tuple[str, str, str]:
    """Return here minus reported, and both ends of its interval, as text with a sign."""

    def signed(text: str) -> str:
        return text if text.startswith("-") else f"+{text}"

    known = difference(measured, reported, shift) if measured and reported is not None else None
    if known is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    digits = _shown_digits(reported)
    text = signed(down(known.value, digits, shift))
    if known.interval is None:
        return text, UNKNOWN, UNKNOWN
    low, high = known.interval
    return text, signed(down(low, digits, shift)), signed(up(high, digits, shift))


def _setting(row: Row, column: str) -> str:
    """Return the value of a column of settings in the row's recipe, as text."""
    if row.system is None or column not in row.fields:
        return UNKNOWN
    section, _, name = row.fields[column].partition(".")
    stated = getattr(row.system.load_recipe(), section)
    setting = stated.get(name) if isinstance(stated, Mapping) else getattr(stated, name)
    if isinstance(setting, tuple):
        return ";".join(map(str, setting)) or UNKNOWN
    return UNKNOWN if setting is None else f"{setting:g}" if isinstance(setting, float) else str(setting)


# How each result was made.


def provenance(table: PaperTable, results: Results) -> Table:
    """Return how every result was made, with its budget."""
    return text_table(PROVENANCE_HEAD, [_provenance_line(table, group) for group in numbered_groups(table, results)])


def _provenance_line(table: PaperTable, group: Group) -> list[str]:
    first, files = group.results[0], [result.certificates for result in group.results if result.certificates]
    images = dict.fromkeys(describe_images(_without_kind(file)) for file in files)
    engines = {str(file.header.get("engine", UNKNOWN)) for file in files}
    largest = [Summary(file).largest for file in files]
    limit = f"no radius above {up(max(largest), 2)}" if largest else ""
    return [
        f"[{group.number}]",
        group.row.label,
        _sources(group.results),
        budget_text(first),
        _epochs(first.recipe, group.row),
        _schedule(first.recipe, group.row),
        "; ".join(images) or "none: only its training is used",
        _certifier(first.certificates) if first.certificates else UNKNOWN,
        ", ".join(sorted(engines)) or UNKNOWN,
        _seeds(group.results),
        "; ".join(filter(None, [first.remark, *missing_corruptions(table, group.results), limit])),
    ]


def _without_kind(certified: Certificates) -> Certificates:
    """Return certificates without their kind of corruption, so that files of all kinds are described alike."""
    if "evaluated_on" not in certified.header:
        return certified
    stated = {key: value for key, value in certified.header["evaluated_on"].items() if key != "kind"}
    return replace(certified, header={**certified.header, "evaluated_on": stated})


def _sources(results: Sequence[Result]) -> str:
    """Return the sources of results, or the folder that many files are in."""
    folders = {str(Path(result.source).parent) for result in results}
    if all(result.run is None for result in results) and len(results) > 1 and len(folders) == 1:
        return f"{folders.pop()} ({len(results)} files)"
    return ", ".join(dict.fromkeys(result.source for result in results))


def budget_text(result: Result) -> str:
    """Describe the budget of a result; it is the paper's only if both training and certification are."""
    if result.run is None:
        return "that of the file"
    return result.budget or "its own"


def _epochs(trained: Recipe | None, row: Row) -> str:
    full = row.system.load_recipe() if row.system else None
    if trained is None or trained.training is None or full is None or full.training is None:
        return UNKNOWN
    return f"{trained.training.epochs:g} of the recipe’s {full.training.epochs:g}"  # noqa: RUF001


def _schedule(trained: Recipe | None, row: Row) -> str:
    """Return the schedule, and what else of the training differs from the recipe."""
    if trained is None or (training := trained.training) is None:
        return UNKNOWN
    full = row.system.load_recipe().training if row.system else None
    pairs = {name: (getattr(training, name), getattr(full, name)) for name in TRAINING_FIELDS} if full else {}
    others = [f"{name} {own} for {usual}" for name, (own, usual) in pairs.items() if own != usual]
    schedule = f"{training.schedule}, rate {training.learning_rate:g}, {training.images_per_step} images a step"
    return ", ".join([schedule, *others])


def _certifier(certified: Certificates) -> str:
    """Describe the certifier, and the noise if it is not the papers'."""
    noise = noise_name(certified)
    return describe_certifier(certified) + ("" if noise == NOISES[0] else f", noise {noise}")


def _seeds(results: Sequence[Result]) -> str:
    training = ", ".join(dict.fromkeys(str(result.seed) for result in results if result.seed is not None)) or UNKNOWN
    noise = {str(result.header.get("seed", UNKNOWN)) for result in results if result.certificates}
    return f"training {training}; certification {', '.join(sorted(noise)) or UNKNOWN}"


# All tables.


def overview(tables: Sequence[tuple[PaperTable, Results, Costs]]) -> Table:
    """Return a line for every table: its rows done, not made yet and missing, and the cost of those not made."""
    return text_table(OVERVIEW_HEAD, [_overview_line(*line) for line in tables])


def _overview_line(table: PaperTable, results: Results, costs: Costs) -> list[str]:
    done = {row.label: complete for row in table.rows if (complete := complete_results(table, results, row))}
    not_made = rows_not_made(table, results)
    budgets = Counter(
        name for row_results in done.values() for name in {result.budget or "other budgets" for result in row_results}
    )
    counts = f" ({', '.join(f'{name} {number}' for name, number in sorted(budgets.items()))})" if done else ""
    return [
        table.name,
        table.kind,
        ", ".join(table.dataset),
        str(len(table.rows)),
        f"{len(done)}{counts}" if table.kind != "settings" else UNKNOWN,
        str(len(not_made)) if table.kind != "settings" else UNKNOWN,
        str(sum(bool(row.why) and row.label not in done for row in table.rows)),
        _cost([costs.get(label) for label in not_made]),
        table.title,
    ]


def costs_of_rows(table: PaperTable, results: Results, costs: Costs) -> Table:
    """Return the known costs of the rows that have no result."""
    labels = [label for label in rows_not_made(table, results) if label in costs]
    return text_table(("Row", "Cost"), [[label, _cost([costs[label]])] for label in labels])


def rows_not_made(table: PaperTable, results: Results) -> list[str]:
    """Return the labels of the rows that can be made and have no result, or fewer seeds than the paper."""
    if table.kind == "settings":
        return []
    return [row.label for row in table.rows if not row.why and not complete_results(table, results, row)]


def complete_results(table: PaperTable, results: Results, row: Row) -> list[Result]:
    """Return the results of a row with as many seeds, or as many kinds of corruption, as the paper has."""
    complete = [result for result in results.get(row.label, ()) if result.complete]
    groups = [group for group in group_results(table, complete) if len(group) >= table.seeds]
    return [result for group in groups if not missing_corruptions(table, group) for result in group]


def _cost(rows: Sequence[Mapping[str, float] | None]) -> str:
    known = [seconds for seconds in rows if seconds is not None]
    if not known:
        return UNKNOWN
    by_name = {name: seconds for row in known for name, seconds in row.items()}  # what rows share is made once
    text = f"about {duration(sum(by_name.values()))}"
    return text if len(known) == len(rows) else f"{text} for {len(known)} of {len(rows)}"

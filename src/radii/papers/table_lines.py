"""A paper's table with what was measured here: reported, here and their difference, and how each was made."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from radii.papers.table import PaperTable, Reported, Row
from radii.papers.table_corruptions import lacking
from radii.papers.table_runs import BASELINE, NOISES, Result, noise_of
from radii.papers.table_values import Measured, as_precise, difference, digits_of, groups, radius_of, shift_of, value
from radii.reports.facts import certifier, choice
from radii.reports.summary import UNKNOWN, Summary, down, radius_text, up
from radii.reports.tables import Cell, Table
from radii.runs.certificates import Certificates
from radii.runs.recipe import Recipe

Results = Mapping[str, Sequence[Result]]
"""The results of the rows of a table, by label."""
HEADS = {"acr": "ACR", "acr_mean": "ACR, mean", "acr_std": "ACR, deviation", "teacher_acr": "Teacher’s ACR"}  # noqa: RUF001
MADE = ("", "Row", "From", "Budget", "Epochs", "Schedule", "Test images", "Certifier", "Engine", "Seeds", "Remark")
SPREADS = ("acr_std", "epoch_time_ci95_s")
"""The columns that are deviations or half intervals."""
OF_TRAINING = ("optimizer", "momentum", "nesterov", "weight_decay", "warmup_epochs", "precision", "batch_norm")
"""What a page tells of a training only where it is not the recipe's."""


class Group(NamedTuple):
    """The results of a row that differ in their seeds alone, under the number that the page gives them."""

    number: int
    row: Row
    results: Sequence[Result]


def numbered(table: PaperTable, results: Results) -> list[Group]:
    """The groups of all rows, in the order of the rows."""
    found = [(row, group) for row in table.rows for group in groups(table, results.get(row.label, ()))]
    return [Group(number, row, group) for number, (row, group) in enumerate(found, 1)]


def lines(table: PaperTable, results: Results) -> Table:
    """Every row as reported, as measured here once for each way it was made, and the difference."""
    columns = table.columns()
    found = numbered(table, results)
    baseline = results.get(BASELINE, ())
    rows: list[list[str]] = []
    for row in table.rows:
        rows.append([row.label, "reported", *(_printed(row.reported.get(column)) for column in columns)])
        mine = [group for group in found if group.row is row]
        for group in mine:
            rows += _here(table, columns, group, baseline)
        if table.kind == "settings":
            rows.append(["", "recipe", *(_setting(row, column) for column in columns)])
        elif not mine:
            rows.append(["", "missing" if row.why else "not made yet", *("" for _ in columns)])
    return Table(["", "", *map(head, columns)], [[Cell(text) for text in row] for row in rows])


def _here(table: PaperTable, columns: Sequence[str], group: Group, baseline: Sequence[Result]) -> Iterator[list[str]]:
    cells = [
        (value(table, column, group.results, baseline), as_precise(group.row, column), shift_of(table, column))
        for column in columns
    ]
    spread = [column in SPREADS for column in columns]
    yield ["", f"here [{group.number}]", *(shown(*cell, spread=each) for cell, each in zip(cells, spread, strict=True))]
    gaps = [_gap(*cell) for cell in cells]
    for name, texts in zip(("difference", "95 % from", "95 % to"), zip(*gaps, strict=True), strict=True):
        if name == "difference" or set(texts) != {UNKNOWN}:
            yield ["", name, *texts]


def head(column: str) -> str:
    """The name of a column."""
    radius = radius_of(column)
    return HEADS.get(column, column.replace("_", " ")) if radius is None else radius_text(radius)


def _printed(reported: Reported | None) -> str:
    return UNKNOWN if reported is None else str(reported)


def _digits(reported: Reported | None) -> int:
    """One more than is printed: a reader can see which way it would round."""
    return 3 if reported is None else digits_of(reported) + 1


def shown(found: Measured | None, reported: Reported | None, shift: int, *, spread: bool = False) -> str:
    """A measured value as text, rounded down, with its deviation over seeds; a spread itself is rounded up."""
    if found is None:
        return UNKNOWN
    text = ("" if found.exact else "≥ ") + (up if spread else down)(found.value, _digits(reported), shift)
    return text if found.deviation is None else f"{text} ± {up(found.deviation, _digits(reported), shift)}"


def _gap(found: Measured | None, reported: Reported | None, shift: int) -> tuple[str, str, str]:
    """Here minus reported, and both ends of its interval, as text."""
    known = difference(found, reported, shift) if found and reported is not None else None
    if known is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    digits = _digits(reported)
    text = _signed(down(known.value, digits, shift))
    if known.interval is None:
        return text, UNKNOWN, UNKNOWN
    low, high = known.interval
    return text, _signed(down(low, digits, shift)), _signed(up(high, digits, shift))


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"


def _setting(row: Row, column: str) -> str:
    """The value of a column of settings in the row's recipe."""
    if row.system is None or column not in row.fields:
        return UNKNOWN
    table, _, name = row.fields[column].partition(".")
    stated = getattr(row.system.read(), table)
    found = stated.get(name) if isinstance(stated, Mapping) else getattr(stated, name)
    if isinstance(found, tuple):
        return ";".join(map(str, found)) or UNKNOWN
    return UNKNOWN if found is None else f"{found:g}" if isinstance(found, float) else str(found)


def made(table: PaperTable, results: Results) -> Table:
    """How every result was made: its budget is part of it."""
    rows = [_made(table, group) for group in numbered(table, results)]
    return Table(MADE, [[Cell(text) for text in row] for row in rows])


def _made(table: PaperTable, group: Group) -> list[str]:
    first = group.results[0]
    certified = first.certificates
    return [
        f"[{group.number}]",
        group.row.label,
        _sources(group.results),
        budget(first),
        _epochs(first.recipe, group.row),
        _schedule(first.recipe, group.row),
        _images(group.results) or "none: only its training is used",
        _certifier(certified) if certified else UNKNOWN,
        _engines(group.results),
        _seeds(group.results),
        "; ".join(filter(None, [first.remark, *_lacking(table, group.results), _limit(group.results)])),
    ]


def _images(results: Sequence[Result]) -> str:
    """The test images, each choice of them once, whatever the kind of corruption."""
    return "; ".join(dict.fromkeys(choice(_of_any_kind(each.certificates)) for each in results if each.certificates))


def _of_any_kind(made: Certificates) -> Certificates:
    if "evaluated_on" not in made.header:
        return made
    stated = {key: value for key, value in made.header["evaluated_on"].items() if key != "kind"}
    return Certificates(made.name, made.rows, {**made.header, "evaluated_on": stated})


def _lacking(table: PaperTable, results: Sequence[Result]) -> Sequence[str]:
    return lacking(table, results) if table.kind == "corruptions" else ()


def _sources(results: Sequence[Result]) -> str:
    """Where results are from: each, or the folder of many files."""
    folders = {str(Path(each.source).parent) for each in results}
    if all(each.run is None for each in results) and len(results) > 1 and len(folders) == 1:
        return f"{folders.pop()} ({len(results)} files)"
    return ", ".join(dict.fromkeys(each.source for each in results))


def _limit(results: Sequence[Result]) -> str:
    """The largest certified radius: fewer samples prove none as large as the paper's."""
    largest = [Summary(each.certificates).largest for each in results if each.certificates]
    return f"no radius above {up(max(largest), 2)}" if largest else ""


def budget(result: Result) -> str:
    """The name of a result's budget; the paper's only where training and certification are both the paper's."""
    if result.run is None:
        return "that of the file"
    return result.budget or "its own"


def _epochs(trained: Recipe | None, row: Row) -> str:
    wanted = row.system.read() if row.system else None
    if trained is None or trained.training is None or wanted is None or wanted.training is None:
        return UNKNOWN
    return f"{trained.training.epochs} of the recipe’s {wanted.training.epochs}"  # noqa: RUF001


def _schedule(trained: Recipe | None, row: Row) -> str:
    """The schedule, and what else of the training is not the recipe's."""
    if trained is None or (training := trained.training) is None:
        return UNKNOWN
    wanted = row.system.read().training if row.system else None
    pairs = {name: (getattr(training, name), getattr(wanted, name)) for name in OF_TRAINING} if wanted else {}
    others = [f"{name} {mine} for {usual}" for name, (mine, usual) in pairs.items() if mine != usual]
    schedule = f"{training.schedule}, rate {training.learning_rate:g}, {training.images_per_step} images a step"
    return ", ".join([schedule, *others])


def _certifier(made: Certificates) -> str:
    """The certifier with its parameters, and a noise that is not the papers'."""
    noise = noise_of(made)
    return certifier(made) + ("" if noise == NOISES[0] else f", noise {noise}")


def _engines(results: Sequence[Result]) -> str:
    found = {str(each.certificates.header.get("engine", UNKNOWN)) for each in results if each.certificates}
    return ", ".join(sorted(found)) or UNKNOWN


def _seeds(results: Sequence[Result]) -> str:
    training = ", ".join(dict.fromkeys(str(each.seed) for each in results if each.seed is not None)) or UNKNOWN
    noise = {str(each.certificates.header.get("seed", UNKNOWN)) for each in results if each.certificates}
    return f"training {training}; certification {', '.join(sorted(noise)) or UNKNOWN}"

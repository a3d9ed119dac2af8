"""The tables of a report."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from radii.reports import protocol
from radii.reports.entries import Entry
from radii.reports.facts import facts
from radii.reports.summary import UNKNOWN, Summary, Value, down, radii_of, radius_text, shown, up

MOST_COLUMNS = 10
"""The most radii that a page shows; the CSV has them all."""
MOST_ABREAST = 4
"""The most inputs shown as columns; more are shown as rows."""


class Cell(NamedTuple):
    """A value as text, with what a page shows beside it."""

    text: str
    best: bool = False
    """Whether it is the best of its column."""
    interval: str = ""
    share: float | None = None
    """The value between 0 and 1, where it is a share of the images."""


class Table(NamedTuple):
    """A table of text; the first column says what a row is about."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def accuracies(entries: Sequence[Entry], radii: Sequence[float] = ()) -> Table:
    """Certified accuracy in per cent at each radius, ACR and abstentions; rounded down, abstentions up."""
    measured = [entry.summary for entry in entries]
    radii = radii or radii_of(measured, MOST_COLUMNS)
    columns = [
        [Cell(entry.name) for entry in entries],
        [Cell(_sigma(entry.certificates.sigma)) for entry in entries],
        _column(measured, lambda each: each.known_acr, lambda each: Cell(shown(each.known_acr, 4))),
        *(_column(measured, *_certified(radius)) for radius in radii),
        [Cell(_abstentions(each)) for each in measured],
    ]
    head = ["", "σ", "ACR", *map(radius_text, radii), "abstains"]  # noqa: RUF001
    return Table(head, list(zip(*columns, strict=True)))


def _certified(radius: float) -> tuple[Callable[[Summary], Value | None], Callable[[Summary], Cell]]:
    def cell(each: Summary) -> Cell:
        text, (lower, upper) = shown(each.known(radius), 1, 2), each.interval(radius)
        if not each.decided(radius):
            return Cell(text)
        interval = f"{down(lower, 1, 2)}–{up(upper, 1, 2)}"  # noqa: RUF001
        return Cell(text, interval=interval, share=each.at(radius).value)

    return lambda each: each.known(radius), cell


def _abstentions(each: Summary) -> str:
    return UNKNOWN if (share := each.known_abstentions) is None else up(share.value, 1, 2)


def _column(
    measured: Sequence[Summary], value: Callable[[Summary], Value | None], cell: Callable[[Summary], Cell]
) -> list[Cell]:
    top = best(measured, value)
    return [cell(each)._replace(best=top is not None and value(each) == top) for each in measured]


def best(measured: Sequence[Summary], value: Callable[[Summary], Value | None]) -> Value | None:
    """The largest of comparable values; none if a value is unknown, only a bound, or 0."""
    known = [found for each in measured if (found := value(each)) and found.exact]
    if len(known) < len(measured) or not protocol.comparable([each.certificates for each in measured]):
        return None
    return max(known) if max(known).value > 0 else None


def intervals(table: Table) -> Table:
    """The 95 % intervals of a table's columns that have any."""
    columns = [0, *(n for n in range(len(table.head)) if any(row[n].interval for row in table.rows))]
    rows = [[row[0], *(Cell(row[n].interval or UNKNOWN) for n in columns[1:])] for row in table.rows]
    return Table([table.head[n] for n in columns], rows)


def facts_table(entries: Sequence[Entry]) -> Table:
    """How each input was computed, one column per input where they fit; unrecorded facts are left out.

    Of more inputs, only what differs between them, one row per input.
    """
    known = [facts(entry) for entry in entries]
    names = [entry.name for entry in entries]
    if len(entries) <= MOST_ABREAST:
        return Table(["", *names], [[Cell(fact), *(Cell(each[fact]) for each in known)] for fact in _recorded(known)])
    own = [fact for fact in _recorded(known) if not _shared(known, fact)]
    rows = [[Cell(name), *(Cell(each[fact]) for fact in own)] for name, each in zip(names, known, strict=True)]
    return Table(["", *own], rows)


def shared_facts(entries: Sequence[Entry]) -> Table | None:
    """What is the same of inputs that are too many for a column each; None for fewer, or where nothing is."""
    known = [facts(entry) for entry in entries]
    rows = [[Cell(fact), Cell(known[0][fact])] for fact in _recorded(known) if _shared(known, fact)]
    return Table(["", "All inputs"], rows) if rows and len(entries) > MOST_ABREAST else None


def _recorded(known: Sequence[Mapping[str, str]]) -> list[str]:
    return [fact for fact in known[0] if any(each[fact] != UNKNOWN for each in known)]


def _shared(known: Sequence[Mapping[str, str]], fact: str) -> bool:
    return len({each[fact] for each in known}) == 1


def _sigma(sigma: float | None) -> str:
    return UNKNOWN if sigma is None else radius_text(sigma)

"""Certified accuracy class by class."""

from collections.abc import Sequence

from radii.reports.entries import Entry
from radii.reports.summary import UNKNOWN, Share, Summary, down, radius_text, shown, up
from radii.reports.tables import Cell, Table
from radii.runs.certificates import Certificates

MOST_CLASSES = 50
"""Of a table; of more, those with the lowest certified accuracy in the first input are shown."""


def per_class(entries: Sequence[Entry], radius: float) -> Table | None:
    """The share of the images of each class that is certified at a radius; one column for each input.

    None where there is one class, or where the inputs have different ones.
    """
    named = {tuple(found) for entry in entries if (found := entry.run.class_names() if entry.run else ())}
    labels = sorted({row.label for entry in entries for row in entry.certificates.rows})
    if len(labels) < 2 or len(named) > 1:
        return None
    split = [{label: _of(entry.summary, label) for label in labels} for entry in entries]
    first = split[0]
    kept = sorted(labels, key=lambda label: _share(first[label], radius))[:MOST_CLASSES]
    names = named.pop() if named else ()
    head = ["Class", "Images", *(entry.name for entry in entries)]
    rows = [
        [Cell(_name(label, names)), Cell(_images(label, split)), *(_cell(each[label], radius) for each in split)]
        for label in sorted(kept)
    ]
    return Table(head, rows)


def caption(entries: Sequence[Entry], radius: float) -> str:
    """What the table of the classes shows."""
    labels = {row.label for entry in entries for row in entry.certificates.rows}
    few = f", of the {MOST_CLASSES} lowest of {len(labels)} classes" if len(labels) > MOST_CLASSES else ""
    return f"Per cent of each class certified at radius {radius_text(radius)}{few}, rounded down."


def _of(summary: Summary, label: int) -> Summary | None:
    """The certificates of one class, certified in the same way."""
    made = summary.certificates
    rows = [row for row in made.rows if row.label == label]
    return Summary(Certificates(made.name, rows, made.header)) if rows else None


def _share(summary: Summary | None, radius: float) -> float:
    return 2.0 if summary is None else summary.at(radius).value


def _images(label: int, split: Sequence[dict[int, Summary | None]]) -> str:
    counts = sorted({0 if each[label] is None else each[label].images for each in split})  # type: ignore[union-attr]
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"  # noqa: RUF001


def _cell(summary: Summary | None, radius: float) -> Cell:
    if summary is None or not summary.decided(radius):
        return Cell(UNKNOWN if summary is None else shown(summary.known(radius), 1, 2))
    share: Share = summary.at(radius)
    lower, upper = summary.interval(radius)
    return Cell(down(share.value, 1, 2), interval=f"{down(lower, 1, 2)}–{up(upper, 1, 2)}", share=share.value)  # noqa: RUF001


def _name(label: int, names: Sequence[str]) -> str:
    return names[label] if 0 <= label < len(names) else f"class {label}"

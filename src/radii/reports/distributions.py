"""How sure the votes were, and what they cost: small histograms, one row for each input."""

import math
from collections.abc import Sequence
from statistics import median

from radii.reports.chart import bars, text
from radii.reports.entries import Entry
from radii.reports.summary import UNKNOWN, down
from radii.runs.certificates import Row

BINS = 20


def distributions(entries: Sequence[Entry]) -> str:
    """A table of histograms: the share of votes of the top class, and the samples per image; empty without either."""
    if not any(_tops(entry) or entry.summary.samples for entry in entries):
        return ""
    head = ("", "Top class’s share of the votes", "Median", "Samples per image", "Median", "In all")  # noqa: RUF001
    rows = "\n".join(_row(entry, number) for number, entry in enumerate(entries))
    cells = "".join(f'<th scope="col">{text(title)}</th>' if title else "<td></td>" for title in head)
    return f'<table class="sortable">\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>'


def _row(entry: Entry, number: int) -> str:
    tops, samples = _tops(entry), [row.samples for row in entry.certificates.rows if row.samples]
    dot = f'<span class="dot" style="background: var(--c{number})"></span>'
    cells = [
        _linear(tops, f"{entry.name}: the top class’s share of the votes from 0 to 1"),  # noqa: RUF001
        down(median(tops), 3) if tops else UNKNOWN,
        _logarithmic(samples, f"{entry.name}: samples per image"),
        f"{math.ceil(median(samples)):,}" if samples else UNKNOWN,
        f"{sum(samples):,}" if samples else UNKNOWN,
    ]
    columns = "".join(f'<td style="--c: var(--c{number})">{cell}</td>' for cell in cells)
    return f'<tr class="run-{number}"><th scope="row">{dot}{text(entry.name)}</th>{columns}</tr>'


def _tops(entry: Entry) -> list[float]:
    return [_top(row) for row in entry.certificates.rows if sum(row.counts.values()) > 0]


def _top(row: Row) -> float:
    return max(row.counts.values()) / sum(row.counts.values())


def _linear(values: Sequence[float], label: str) -> str:
    if not values:
        return UNKNOWN
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(value * BINS))] += 1
    return f"{bars(counts, label)}{_ends('0', '1')}"


def _logarithmic(values: Sequence[int], label: str) -> str:
    if not values:
        return UNKNOWN
    low, high = math.log10(min(values)), math.log10(max(values))
    if high - low < 1e-9:
        return f"{min(values):,} for every image"
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(BINS * (math.log10(value) - low) / (high - low)))] += 1
    return f"{bars(counts, label)}{_ends(f'{min(values):,}', f'{max(values):,}')}"


def _ends(low: str, high: str) -> str:
    """What the two ends of a histogram are."""
    return f'<small class="ends"><span>{low}</span><span>{high}</span></small>'

"""How training went: loss and noisy test accuracy over the epochs."""

import math
from collections.abc import Sequence

from radii.reports.chart import Chart, Point, ticks_up_to
from radii.reports.entries import Entry

HEIGHT = 300.0


def training_curves(entries: Sequence[Entry]) -> list[str]:
    """A figure of the noisy test accuracy and one of the loss, of the runs that recorded them."""
    accuracy = _lines(entries, "noisy_test_accuracy", 100.0)
    loss = _lines(entries, "loss", 1.0)
    found = []
    if accuracy:
        found.append(_figure("Noisy test accuracy of the base classifier while training, %", accuracy, 100.0))
    if loss:
        highest = max(y for points in loss.values() for _, y in points)
        found.append(_figure("Loss while training (losses of different methods do not compare)", loss, highest))
    return found


def _lines(entries: Sequence[Entry], column: str, factor: float) -> dict[int, list[Point]]:
    """The values of a column over the epochs by input; only the first input of every run."""
    found: dict[int, list[Point]] = {}
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        if entry.run is None or not entry.own or str(entry.run.path.resolve()) in seen:
            continue
        seen.add(str(entry.run.path.resolve()))
        points = [(epoch, factor * _number(row.get(column, ""))) for epoch, row in enumerate(entry.run.history(), 1)]
        if len(points := [point for point in points if math.isfinite(point[1])]) > 1:
            found[number] = [(float(x), y) for x, y in points]
    return found


def _below(lowest: float, highest: float) -> float:
    """Where the axis starts: at 0, or just below values that are all in the upper half, to tell them apart."""
    step = highest / 20
    return min(lowest, 0.0) if lowest < highest / 2 else max(0.0, step * (math.floor(lowest / step) - 1))


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _figure(title: str, lines: dict[int, list[Point]], highest: float) -> str:
    last = max(points[-1][0] for points in lines.values())
    lowest = _below(min(y for points in lines.values() for _, y in points), highest)
    frame = Chart(title, (last, highest), (1.0, lowest), HEIGHT)
    drawn = "".join(
        f'<g class="run run-{number}" style="--c: var(--c{number})"><path class="curve" d="{frame.line(points)}"/></g>'
        for number, points in lines.items()
    )
    along = [(max(1.0, value), f"{max(1.0, value):.0f}") for value in ticks_up_to(last) if value == int(value)]
    up_to = [(value, f"{value:g}") for value in ticks_up_to(highest, 5 if lowest <= 0 else 20) if value >= lowest]
    return f"<figcaption>{title}</figcaption>{frame.svg(drawn, along, up_to, 'Epoch')}"

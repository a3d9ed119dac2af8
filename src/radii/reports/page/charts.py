"""Figures of the page as SVG in the page's colours: training, transfer, and histograms of votes and samples."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from radii.reports.figures import Point
from radii.reports.inputs import Entry
from radii.reports.spread import top_probabilities
from radii.reports.text import UNKNOWN, down, html_text
from radii.reports.transfer import TrainedRun
from radii.runs.readers import number_in

WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 14.0, 52.0
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
BINS = 20
SHORTEST = 0.01
"""Shorter trainings, in seconds, are drawn as this long, because the axis is logarithmic."""
UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

Tick = tuple[float, str]


def step_for(largest: float, most: int) -> float:
    """Return the smallest round step such that at most `most` steps reach a value."""
    least = max(largest, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * nice for nice in NICE if power * nice >= least * (1 - 1e-9))


def ticks_up_to(largest: float, most: int = 8) -> list[float]:
    """Return round numbers from 0 to a value."""
    step = step_for(largest, most)
    return [step * number for number in range(math.floor(largest / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Chart:
    """A figure with two axes: their ranges, and the place of a value in the picture."""

    title: str
    end: Point
    """The largest values of the axes."""
    start: Point = (0.0, 0.0)
    height: float = HEIGHT
    logarithmic: bool = False
    """Whether the horizontal axis is logarithmic."""

    def x(self, value: float) -> float:
        low, high, value = (self._scale(number) for number in (self.start[0], self.end[0], value))
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        low, high = self.start[1], self.end[1]
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)

    def _scale(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def line(self, points: Iterable[Point]) -> str:
        """Return the path through points."""
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)

    def steps(self, points: Sequence[Point]) -> str:
        """Return the path of a step curve. A step has the value of its right end, so the curve is never too high."""
        (x, y), *rest = points
        path, last = f"M{self.x(x):.1f} {self.y(y):.1f}", y
        for number, (x, y) in enumerate(rest):
            if y != last:
                path += f"V{self.y(y):.1f}"
            if number + 1 == len(rest) or rest[number + 1][1] != y:
                path += f"H{self.x(x):.1f}"
            last = y
        return path

    def svg(self, drawn: str, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick], x_title: str, extra: str = "") -> str:
        """Return the figure, with `drawn` inside its axes."""
        bottom = self.height - BOTTOM
        y_axis = "".join(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(value):.1f}" y2="{self.y(value):.1f}"/>'
            f'<text class="tick" x="{LEFT - 8}" y="{self.y(value) + 4:.1f}" text-anchor="end">{html_text(label)}</text>'
            for value, label in y_ticks
        )
        x_axis = "".join(
            f'<text class="tick {"odd" if number % 2 else ""}" x="{self.x(value):.1f}" y="{bottom + 24:.1f}" '
            f'text-anchor="middle">{html_text(label)}</text>'
            for number, (value, label) in enumerate(x_ticks)
        )
        line = f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
        name = (
            f'<text class="tick name" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{self.height - 4:.0f}" '
            f'text-anchor="middle">{html_text(x_title)}</text>'
        )
        size = f'viewBox="0 0 {WIDTH:.0f} {self.height:.0f}"'
        return (
            f'<svg class="chart" {size} role="img" aria-label="{html_text(self.title)}"{extra}>'
            f"{y_axis}{x_axis}{line}{name}{drawn}</svg>"
        )


def group(number: int, drawn: str) -> str:
    """Return the group of what is drawn for input `number`, in its colour; a checkbox of the legend hides it."""
    return f'<g class="run run-{number}" style="--c: var(--c{number})">{drawn}</g>'


class Figure(NamedTuple):
    """A figure of the page with its caption."""

    caption: str
    svg: str


def training_figures(entries: Sequence[Entry]) -> list[Figure]:
    """Draw noisy test accuracy and loss over the epochs, for the runs that recorded them."""
    accuracy = _training_lines(entries, "noisy_test_accuracy", 100.0)
    loss = _training_lines(entries, "loss", 1.0)
    figures = []
    if accuracy:
        figures.append(_training_figure("Noisy test accuracy of the base classifier while training, %", accuracy, 100))
    if loss:
        highest = max(y for points in loss.values() for _, y in points)
        title = "Loss while training (losses of different methods do not compare)"
        figures.append(_training_figure(title, loss, highest))
    return figures


def _training_lines(entries: Sequence[Entry], column: str, factor: float) -> dict[int, list[Point]]:
    """Return the values of a column over the epochs, by the number of the first input of each run."""
    lines: dict[int, list[Point]] = {}
    seen: set[Path] = set()
    for number, entry in enumerate(entries):
        if entry.run is None or not entry.own or entry.run.path.resolve() in seen:
            continue
        seen.add(entry.run.path.resolve())
        rows = enumerate(entry.run.history(), 1)
        values = [(float(epoch), factor * number_in(row.get(column, ""))) for epoch, row in rows]
        points = [(epoch, value) for epoch, value in values if math.isfinite(value)]
        if len(points) > 1:
            lines[number] = points
    return lines


def _training_figure(title: str, lines: dict[int, list[Point]], highest: float) -> Figure:
    last = max(points[-1][0] for points in lines.values())
    lowest = _axis_start(min(y for points in lines.values() for _, y in points), highest)
    chart = Chart(title, (last, highest), (1.0, lowest), 300.0)
    drawn = "".join(
        group(number, f'<path class="curve" d="{chart.line(points)}"/>') for number, points in lines.items()
    )
    epochs = [(max(1.0, value), f"{max(1.0, value):.0f}") for value in ticks_up_to(last) if value == int(value)]
    values = [(value, f"{value:g}") for value in ticks_up_to(highest, 5 if lowest <= 0 else 20) if value >= lowest]
    return Figure(title, chart.svg(drawn, epochs, values, "Epoch"))


def _axis_start(lowest: float, highest: float) -> float:
    """Return where the axis starts: at 0, or just below the values if all are in the upper half."""
    step = highest / 20
    return min(lowest, 0.0) if lowest < highest / 2 else max(0.0, step * (math.floor(lowest / step) - 1))


def transfer_figure(runs: Sequence[TrainedRun], norms: str = "") -> Figure | None:
    """Draw ACR over training time, and for students the time that the teacher's method would have taken.

    A dashed line across the plot is the ACR of a baseline.
    """
    if not runs:
        return None
    times = [
        max(seconds, SHORTEST) for run in runs for seconds in (run.seconds, run.method_seconds) if seconds is not None
    ]
    size, unit = next((size, unit) for size, unit in UNITS if max(times) >= size or size == 1.0)
    low = min(times) / size / 1.6
    highest, lowest = max(run.acr.value for run in runs) * 1.06 or 1.0, min(run.acr.value for run in runs) * 0.92
    end = max(times) / size * 1.7, highest
    title = f"Average certified radius (ACR{f', {norms}, pixels in [0, 1]' if norms else ''}) over training time"
    chart = Chart(title, end, (low, lowest), 320.0, logarithmic=True)
    drawn = "".join(_run_points(chart, run, size) for run in runs)
    values = [(value, f"{value:.4g}") for value in ticks_up_to(highest, 40) if value >= lowest]
    values = values[:: math.ceil(len(values) / 6)]
    return Figure(title, chart.svg(drawn, _decades(low, end[0]), values, f"Training time, {unit}"))


def _run_points(chart: Chart, run: TrainedRun, size: float) -> str:
    """Draw a point, and for a student a hollow one where the teacher's method would have ended."""
    x, y = chart.x(max(run.seconds, SHORTEST) / size), chart.y(run.acr.value)
    drawn = f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
    if run.method_seconds is not None:
        far = chart.x(max(run.method_seconds, SHORTEST) / size)
        drawn += f'<path class="attacked" d="M{x:.1f} {y:.1f}H{far:.1f}"/>'
        drawn += f'<circle class="hollow" cx="{far:.1f}" cy="{y:.1f}" r="6"/>'
    if run.baseline:
        drawn += f'<path class="bar attacked" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
    return group(run.number, drawn)


def _decades(low: float, high: float) -> list[Tick]:
    """Return ticks at 1, 2 and 5 of every decade within the limits."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return [(value, f"{value:g}") for value in values if low <= value <= high]


class Histogram(NamedTuple):
    """A small histogram with the values at its ends; words in its place if there is nothing to draw."""

    svg: str = ""
    ends: tuple[str, str] = ("", "")
    words: str = ""


class VoteRow(NamedTuple):
    """The top class's share of the votes of one input, and the samples that the votes took."""

    name: str
    shares: Histogram
    median_share: str
    samples: Histogram
    median_samples: str
    all_samples: str


def vote_rows(entries: Sequence[Entry]) -> list[VoteRow]:
    """Return a row of histograms for each input; no rows if no input records votes or samples."""
    rows = [_vote_row(entry) for entry in entries]
    recorded = any(row.shares.svg for row in rows) or any(entry.summary.samples for entry in entries)
    return rows if recorded else []


def _vote_row(entry: Entry) -> VoteRow:
    shares = top_probabilities(entry.summary)
    samples = [row.samples for row in entry.certificates.rows if row.samples]
    label = f"{entry.name}: the top class’s share of the votes from 0 to 1"  # noqa: RUF001
    return VoteRow(
        entry.name,
        Histogram(_bars(shares, label), ("0", "1")) if shares else Histogram(words=UNKNOWN),
        down(median(shares), 3) if shares else UNKNOWN,
        _sample_histogram(samples, f"{entry.name}: samples per image"),
        f"{math.ceil(median(samples)):,}" if samples else UNKNOWN,
        f"{sum(samples):,}" if samples else UNKNOWN,
    )


def _sample_histogram(samples: Sequence[int], label: str) -> Histogram:
    """Return a histogram over the logarithm of the samples."""
    if not samples:
        return Histogram(words=UNKNOWN)
    low, high = math.log10(min(samples)), math.log10(max(samples))
    if high - low < 1e-9:
        return Histogram(words=f"{min(samples):,} for every image")
    places = [(math.log10(count) - low) / (high - low) for count in samples]
    return Histogram(_bars(places, label), (f"{min(samples):,}", f"{max(samples):,}"))


def _bars(places: Sequence[float], label: str) -> str:
    width, height = 160.0, 34.0
    counts = [0] * BINS
    for place in places:
        counts[min(BINS - 1, int(place * BINS))] += 1
    largest, step = max(counts), width / BINS
    drawn = "".join(
        f'<rect x="{number * step:.1f}" y="{height - size:.1f}" width="{step - 1:.1f}" height="{size:.1f}"/>'
        for number, count in enumerate(counts)
        if (size := max(1.0, count / largest * height) if count else 0.0)
    )
    line = f'<line class="axis" x1="0" x2="{width:.0f}" y1="{height}" y2="{height}"/>'
    frame = f'viewBox="0 0 {width:.0f} {height + 1:.0f}" width="{width:.0f}" height="{height + 1:.0f}"'
    return f'<svg class="bars" {frame} role="img" aria-label="{html_text(label)}">{drawn}{line}</svg>'

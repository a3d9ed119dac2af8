"""The figures of a report by matplotlib: curves of certified accuracy and bars of times; colours of the inputs."""

import colorsys
import importlib.util
import io
import math
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from radii.errors import MissingExtraError
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary, steps_of, thinned
from radii.reports.protocol import radius_title
from radii.reports.text import plain, radius_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT = (
    *("#0b69b7", "#c84e06", "#0c8362", "#b03f93", "#8a6200", "#5b5bd6", "#b3261e", "#0e7490", "#4d7c0f", "#6b7280"),
    *("#7c3aed", "#9f1239"),
)
"""Colours after Okabe and Ito; the first seven are distinguishable with any colour vision."""
DARK = (
    *("#58a9ec", "#f08a4b", "#3fc49b", "#e07fc4", "#e3b341", "#a5a5f7", "#f28b82", "#4fc3dc", "#a3cf5f", "#a9b2bf"),
    *("#c4a1ff", "#fb8fa6"),
)
"""The same colours on a dark page, in the same order."""
GOLDEN = 0.618033988749895
"""Hues that differ by this share of the circle stay apart however many there are."""
INK, MUTED, GRID, PAPER = "#1c2430", "#5d6878", "#dfe3e8", "#ffffff"
DASHES = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
POINTS = 600
"""The radii of a curve; their distance is less than a pixel."""
MOST_BANDS = 3
"""The most curves that are drawn with intervals, because more bands would overlap."""
MOST_NAMES_INSIDE, LONGEST_NAME_INSIDE = 8, 36
"""The most names, and characters of a name, of a legend inside the plot."""
LONGEST_LINE, LONGEST_BESIDE_BAR = 80, 36
"""Characters of a name below the curves and beside a bar; longer names are wrapped."""
MOST_MARKS = 9
"""The most labelled radii on the axis."""
UNSTATED = {
    "svg": ("Date", "Creator", "Format", "Type"),
    "png": ("Software",),
    "pdf": ("Creator", "Producer", "CreationDate"),
}
"""Metadata that is left out because it changes with the day or the version, by the kind of file."""

Point = tuple[float, float]


def light_colour(number: int) -> str:
    """Return the colour of input `number` on a light page; every input has another one."""
    return LIGHT[number] if number < len(LIGHT) else _further_colour(number, 0.38, 0.62)


def dark_colour(number: int) -> str:
    """Return the colour of input `number` on a dark page."""
    return DARK[number] if number < len(DARK) else _further_colour(number, 0.72, 0.7)


def _further_colour(number: int, lightness: float, saturation: float) -> str:
    shade = lightness + 0.06 * (number % 3 - 1)
    rgb = colorsys.hls_to_rgb(number * GOLDEN % 1.0, shade, saturation)
    return "#" + "".join(f"{round(255 * value):02x}" for value in rgb)


class Curve(NamedTuple):
    """Certified accuracy in per cent over the radius, for matplotlib and for the SVG of the page.

    A step holds the value of its right end, so that nothing is drawn above the certified value.
    """

    points: Sequence[Point]
    intervals: Sequence[tuple[float, float, float]]
    """Radius and both ends of the 95 % interval in per cent; empty if intervals are not drawn."""
    tested: bool
    """Whether the points are at tested radii; between two of them, the curve shows what the larger one proves."""


def accuracy_curve(summary: Summary, end: float, *, intervals: bool, every: int = 1) -> Curve:
    """Return the certified accuracy from radius 0 to `end`, or to where it is 0, with intervals at every nth radius."""
    tested = summary.tested_radii
    radii = [end * number / POINTS for number in range(POINTS + 1)] if tested is None else list(tested)
    shares = [summary.at(radius).value for radius in radii]
    if tested is None and 0.0 in shares:
        shares = shares[: shares.index(0.0) + 1]
    points = [(radius, 100 * share) for radius, share in zip(radii, shares, strict=False)]
    at = [radius for radius, _ in points[:: every if tested is None else 1]] if intervals else []
    ends = [(radius, *summary.interval(radius)) for radius in at]
    return Curve(points, [(radius, 100 * low, 100 * high) for radius, low, high in ends], tested is not None)


def draw_curves(entries: Sequence[Entry]) -> "Figure":
    """Draw certified accuracy over the radius, one curve per input; the legend begins with the largest ACR."""
    marks = thinned(steps_of([entry.summary for entry in entries]), MOST_MARKS)
    end = 1.03 * max(marks[-1], *(entry.summary.largest for entry in entries))
    figure, axes = make_axes(7.2, 4.5)
    for number in sorted(range(len(entries)), key=lambda number: -entries[number].summary.acr):
        curve = accuracy_curve(entries[number].summary, end, intervals=len(entries) <= MOST_BANDS)
        dash = DASHES[number // len(LIGHT) % len(DASHES)]
        _draw_curve(axes, curve, legend_name(entries[number].name), light_colour(number), dash)
    axes.set(xlim=(0, end), ylim=(0, 100), xlabel=radius_title([entry.certificates for entry in entries]))
    axes.set_xticks(marks, [radius_text(mark) for mark in marks])
    axes.set_title("Certified accuracy, % of all images", loc="left", fontsize=11, color=MUTED, pad=12)
    add_legend(figure, axes)
    return figure


def plot(summary: Summary, axes: "Axes | None", label: str) -> "Axes":
    """Draw a curve into the given axes, by default those of pyplot, and return the axes."""
    _import_matplotlib()
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.gca()
    before = len(axes.get_legend_handles_labels()[1])
    curve = accuracy_curve(summary, 1.03 * summary.largest or 1.0, intervals=before < MOST_BANDS)
    _draw_curve(axes, curve, legend_name(label), light_colour(before), "solid")
    axes.set(ylim=(0, 100), xlabel=radius_title([summary.certificates]), ylabel="Certified accuracy, % of all images")
    axes.set_xlim(left=0)
    axes.legend()
    return axes


def _draw_curve(axes: "Axes", curve: Curve, label: str, colour: str, dash: Any) -> None:
    radii, percent = zip(*curve.points, strict=True)
    look: dict[str, Any] = {"drawstyle": "steps-pre", "color": colour, "linestyle": dash}
    if curve.tested:
        axes.plot(radii, percent, linewidth=1.2, alpha=0.5, **look)
        axes.plot(radii, percent, "o", markersize=6, color=colour, label=label, clip_on=False, zorder=3)
    else:
        axes.plot(radii, percent, linewidth=1.8, label=label, **look)
    if not curve.intervals:
        return
    radii, lower, upper = zip(*curve.intervals, strict=True)
    if curve.tested:
        axes.vlines(radii, lower, upper, color=colour, alpha=0.35)
    else:
        axes.fill_between(radii, lower, upper, step="pre", color=colour, alpha=0.12, linewidth=0)


def draw_bars(names: Sequence[str], values: Sequence[float], unit: str) -> "Figure":
    """Draw one horizontal bar per name, its value beside it."""
    figure, axes = make_axes(7.2, 0.6 + 0.34 * len(names))
    bars = axes.barh(range(len(names)), values, height=0.55, color=light_colour(0))
    axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=5, color=INK, fontsize=10)
    axes.set_yticks(range(len(names)), [fill(legend_name(name), LONGEST_BESIDE_BAR) for name in names])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_xlim(0, 1.12 * max(values))
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.set_title(unit, loc="left", fontsize=11, color=MUTED, pad=10)
    return figure


def make_axes(width: float, height: float) -> "tuple[Figure, Axes]":
    """Return a new figure of this size in inches, and its axes."""
    _import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(length=0, labelcolor=MUTED, labelsize=10, pad=6)
    axes.xaxis.label.set_color(MUTED)
    return figure, axes


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _import_matplotlib() -> None:
    """Import matplotlib without the matplotlibrc of the current folder, which may be untrusted."""
    if sys.modules.get("matplotlib") is None:
        try:
            with chdir(Path(__file__).parent):
                import matplotlib  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("Figures need matplotlib, which is not installed.", "plot") from error


def add_legend(figure: "Figure", axes: "Axes") -> None:
    """Place the legend where the curves leave room, or below them if it is long."""
    lines, names = axes.get_legend_handles_labels()
    longest = max(map(len, names))
    look: dict[str, Any] = {"labelcolor": INK, "fontsize": 9.5, "handlelength": 1.8, "edgecolor": "none"}
    if len(names) <= MOST_NAMES_INSIDE and longest <= LONGEST_NAME_INSIDE:
        axes.legend(lines, names, loc="best", facecolor=PAPER, framealpha=1.0, borderaxespad=0.8, **look)
        return
    columns = max(1, min(3, LONGEST_LINE // (longest + 5)))
    wrapped = [fill(name, LONGEST_LINE) for name in names]
    high = math.ceil(sum(name.count("\n") + 1 for name in wrapped) / columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * high)
    figure.legend(lines, wrapped, loc="outside lower left", ncols=columns, facecolor="none", **look)


def legend_name(name: str) -> str:
    """Escape a name, because matplotlib parses $ as a formula and hides names that begin with an underscore."""
    return plain(name).replace("$", r"\$").lstrip("_") or name


def to_bytes(figure: "Figure", kind: str) -> bytes:
    """Return a figure as svg, pdf or png, always with the same bytes."""
    import matplotlib

    content = io.BytesIO()
    # Text stays text, for search and for screen readers.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "radii", "pdf.fonttype": 42}):
        left_out = dict.fromkeys(UNSTATED[kind])
        figure.savefig(content, format=kind, dpi=200, metadata=left_out, bbox_inches="tight", facecolor=PAPER)
    return content.getvalue()

"""The figures of a report: certified accuracy over the radius, and bars of times."""

import io
import math
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from radii.reports import colours
from radii.reports.entries import Entry
from radii.reports.summary import radius_text, steps_of, thinned
from radii.reports.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1c2430", "#5d6878", "#dfe3e8", "#ffffff"
DASHES = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
POINTS = 600
"""Radii at which a curve is evaluated: finer than a pixel."""
UNSTATED = {
    "svg": ("Date", "Creator", "Format", "Type"),
    "png": ("Software",),
    "pdf": ("Creator", "Producer", "CreationDate"),
}
"""The metadata that would differ from day to day, by the kind of file."""
MOST_BANDS = 3
"""The most curves that are drawn with intervals; more bands would overlap."""
MOST_NAMES_INSIDE, LONGEST_NAME_INSIDE = 8, 36
LONGEST_LINE, LONGEST_AT_A_BAR = 80, 36
"""Characters of a name below the curves, and beside a bar; longer ones take several lines."""
MOST_MARKS = 9
"""The most labelled radii on the axis."""


def curves(entries: Sequence[Entry]) -> "Figure":
    """Certified accuracy over the radius, one curve per input, the largest ACR first in the legend."""
    marks = thinned(steps_of([entry.summary for entry in entries]), MOST_MARKS)
    end = 1.03 * max(marks[-1], *(entry.summary.largest for entry in entries))
    figure, axes = axes_of(7.2, 4.5)
    radii = [end * number / POINTS for number in range(POINTS + 1)]
    order = sorted(range(len(entries)), key=lambda number: -entries[number].summary.acr)
    for number in order:
        dash = DASHES[number // len(colours.LIGHT) % len(DASHES)]
        draw = _curve if entries[number].summary.asked is None else _points
        draw(axes, entries[number], radii, colours.light(number), dash, band=len(entries) <= MOST_BANDS)
    axes.set(xlim=(0, end), ylim=(0, 100), xlabel="Radius (l2, pixels in [0, 1])")
    axes.set_xticks(marks, [radius_text(mark) for mark in marks])
    axes.set_title("Certified accuracy, % of all images", loc="left", fontsize=11, color=MUTED, pad=12)
    legend(figure, axes)
    return figure


def _curve(axes: "Axes", entry: Entry, radii: Sequence[float], colour: str, dash: Any, *, band: bool) -> None:
    """One curve; a step holds the value of its right end, so none is drawn above the certified value."""
    shares = [entry.summary.at(radius).value for radius in radii]
    shown = shares.index(0.0) + 1 if 0.0 in shares else len(shares)
    percent = [100 * share for share in shares[:shown]]
    label = plain_name(entry.name)
    axes.plot(radii[:shown], percent, drawstyle="steps-pre", color=colour, linestyle=dash, linewidth=1.8, label=label)
    if band:
        ends = [entry.summary.interval(radius) for radius in radii[:shown]]
        lower, upper = ([100 * end[side] for end in ends] for side in (0, 1))
        axes.fill_between(radii[:shown], lower, upper, step="pre", color=colour, alpha=0.12, linewidth=0)


def _points(axes: "Axes", entry: Entry, _: Sequence[float], colour: str, dash: Any, *, band: bool) -> None:
    """A point at each tested radius; between two of them the curve shows what the larger one proves."""
    radii = entry.summary.asked or ()
    percent = [100 * entry.summary.at(radius).value for radius in radii]
    axes.plot(radii, percent, drawstyle="steps-pre", color=colour, linestyle=dash, linewidth=1.2, alpha=0.5)
    axes.plot(radii, percent, "o", markersize=6, color=colour, label=plain_name(entry.name), clip_on=False, zorder=3)
    if band:
        lower, upper = zip(*(entry.summary.interval(radius) for radius in radii), strict=True)
        axes.vlines(radii, [100 * end for end in lower], [100 * end for end in upper], color=colour, alpha=0.35)


def legend(figure: "Figure", axes: "Axes") -> None:
    """Place the legend where the curves leave room, or below them when it is long."""
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


def bars(names: Sequence[str], values: Sequence[float], unit: str) -> "Figure":
    """One horizontal bar per name, its value beside it."""
    figure, axes = axes_of(7.2, 0.6 + 0.34 * len(names))
    drawn = axes.barh(range(len(names)), values, height=0.55, color=colours.light(0))
    axes.bar_label(drawn, [f"{value:.3g}" for value in values], padding=5, color=INK, fontsize=10)
    axes.set_yticks(range(len(names)), [fill(plain_name(name), LONGEST_AT_A_BAR) for name in names])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_xlim(0, 1.12 * max(values))
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.set_title(unit, loc="left", fontsize=11, color=MUTED, pad=10)
    return figure


def plain_name(name: str) -> str:
    """A name escaped so that matplotlib neither parses it as a formula nor hides it from the legend."""
    return plain(name).replace("$", r"\$").lstrip("_") or name


def image(figure: "Figure", kind: str) -> bytes:
    """The figure as svg, pdf or png, the same bytes for the same figure."""
    import matplotlib

    content = io.BytesIO()
    # Text stays text, for search and for screen readers.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "radii", "pdf.fonttype": 42}):
        nothing = dict.fromkeys(UNSTATED[kind])
        figure.savefig(content, format=kind, dpi=200, metadata=nothing, bbox_inches="tight", facecolor=PAPER)
    return content.getvalue()


def axes_of(width: float, height: float) -> "tuple[Figure, Axes]":
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

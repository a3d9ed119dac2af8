"""The curves of the page as SVG, and the values that its script shows at a radius."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from radii.reports.attacks import attacked_accuracy, largest_attack
from radii.reports.figures import MOST_BANDS, Curve, accuracy_curve
from radii.reports.inputs import Entry
from radii.reports.metrics import Difference, paired_differences, shown
from radii.reports.page.charts import Chart, group, step_for, ticks_up_to
from radii.reports.protocol import radius_title
from radii.reports.text import UNKNOWN, down, percent_range, radius_text, up
from radii.runs.attacks import Attack
from radii.smoothing.norms import LINF

SLIDER_RADII = 120
"""About how many radii the slider has."""
MOST_TICKS = 12
DASHED = (
    " Dashed: the share of the attacked images with a right answer that the attack did not change to a wrong one; "
    "abstentions are errors in both. On the same images the truth is between certified and attacked; where fewer "
    "images were attacked than certified, or fewer votes decide, the curves can cross."
)


def caption(entries: Sequence[Entry]) -> str:
    """Describe the curves."""
    return f"Certified accuracy, % of all images.{DASHED if any(entry.attacks for entry in entries) else ''}"


def figure(entries: Sequence[Entry]) -> str:
    """Draw certified accuracy over the radius, and attacked accuracy as a dashed curve if there was an attack."""
    end = 1.02 * max(entry.summary.largest for entry in entries) or 1.0
    chart = Chart("Certified accuracy over the radius", (end, 100.0), height=430.0)
    drawn = ""
    for number, entry in enumerate(entries):
        curve = accuracy_curve(entry.summary, end, intervals=len(entries) <= MOST_BANDS, every=4)
        attack = largest_attack(entry)
        drawn += group(number, _certified(chart, curve) + (_attacked(chart, attack.attack) if attack else ""))
    radii = [(mark, radius_text(round(mark, 6))) for mark in ticks_up_to(end, MOST_TICKS)]
    percent = [(value, f"{value:.0f}") for value in range(0, 101, 20)]
    place = f' data-left="{chart.x(0):.1f}" data-right="{chart.x(end):.1f}" data-end="{end!r}"'
    return chart.svg(drawn, radii, percent, radius_title([entry.certificates for entry in entries]), place)


def _certified(chart: Chart, curve: Curve) -> str:
    path = chart.steps(curve.points)
    if curve.tested:
        bars = "".join(
            f'<path class="bar" d="{chart.line([(x, low), (x, high)])}"/>' for x, low, high in curve.intervals
        )
        dots = "".join(
            f'<circle class="dot" cx="{chart.x(x):.1f}" cy="{chart.y(y):.1f}" r="4.5"/>' for x, y in curve.points
        )
        return f'{bars}<path class="curve faint" d="{path}"/>{dots}'
    band = ""
    if curve.intervals:
        above = [(x, high) for x, _, high in curve.intervals]
        below = [(x, low) for x, low, _ in curve.intervals]
        band = f'<path class="band" d="{chart.line([*above, *reversed(below)])}Z"/>'
    return f'{band}<path class="curve" d="{path}"/>'


def _attacked(chart: Chart, attack: Attack) -> str:
    """Draw the attacked accuracy, which falls at the length of every successful change."""
    limit = min(attack.largest, chart.end[0])
    radii = [0.0, *sorted({row.distance for row in attack.rows if row.distance and row.distance < limit}), limit]
    shares = [100 * attack.resisted(radius)[0] / len(attack.rows) for radius in radii]
    steps = pairwise(zip(radii, shares, strict=True))
    points = [(radii[0], shares[0]), *((x, y) for (_, y), (x, _) in steps)]
    return f'<path class="attacked" d="{chart.steps(points)}"/>'


def data(entries: Sequence[Entry], start: float) -> str:
    """Return the texts for every radius of the slider as JSON that is safe in a page; `start` is the first radius."""
    radii = _slider_radii(entries)
    runs = [_slider_texts(entry, entries[0], radii) for entry in entries]
    content: dict[str, Any] = {"radii": radii, "texts": list(map(radius_text, radii)), "runs": runs, "start": start}
    dimensions = {entry.run.dimensions if entry.run else None for entry in entries}
    norms = {entry.certificates.norm for entry in entries}
    if len(dimensions) == len(norms) == 1 and (count := dimensions.pop()) and (norm := norms.pop()) not in (None, LINF):
        content["norm"] = norm.name
        content["linf_divisor"] = norm.divisor(LINF, count)
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c").replace("//", "/\\u002f")


def _slider_radii(entries: Sequence[Entry]) -> list[float]:
    """Return round radii up to the largest one, and every tested radius."""
    largest = max(entry.summary.largest for entry in entries) or 1.0
    digits = max(0, 2 - math.floor(math.log10(step_for(largest, SLIDER_RADII))))
    steps = {round(radius, digits) for radius in ticks_up_to(largest, SLIDER_RADII)}
    return sorted(steps | {radius for entry in entries for radius in entry.summary.tested_radii or ()})


def _slider_texts(entry: Entry, first: Entry, radii: Sequence[float]) -> dict[str, Any]:
    """Return the texts of an input at every radius of the slider, with its differences to the first input."""
    summary, attack = entry.summary, largest_attack(entry)
    differences = [None] * len(radii) if entry is first else paired_differences(summary, first.summary, radii)
    texts: dict[str, Any] = {
        "name": entry.name,
        "value": [shown(summary.known(radius), 1, 2) for radius in radii],
        "interval": [percent_range(summary.interval(r)) if summary.decided(r) else "" for r in radii],
        "difference": ["" if difference is None else _signed(difference) for difference in differences],
    }
    if attack is not None:
        shares = [attacked_accuracy(attack.attack, radius) for radius in radii]
        texts["attacked"] = [UNKNOWN if share is None else up(share.value, 1, 2) for share in shares]
    return texts


def _signed(difference: Difference) -> str:
    """Format a difference in points, rounded down, and its interval, rounded outwards."""
    value, lower, upper = down(difference.value, 1, 2), down(difference.lower, 1, 2), up(difference.upper, 1, 2)
    return f"{_with_sign(value)} ({_with_sign(lower)} to {_with_sign(upper)})"


def _with_sign(number: str) -> str:
    return number if float(number) < 0 else f"+{number}" if float(number) else number.removeprefix("-")

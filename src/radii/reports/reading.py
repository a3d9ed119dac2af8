"""The curves of a page: drawn as SVG, with the values that a script shows at the radius under the pointer."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from radii.reports import attacked, chart, paired
from radii.reports.chart import Chart, Point
from radii.reports.curves import MOST_BANDS, POINTS
from radii.reports.entries import Entry
from radii.reports.summary import UNKNOWN, down, radius_text, shown, up
from radii.runs import readers

READINGS = 120
"""About as many radii can be read off."""
MOST_TICKS = 12
DASHED = (
    " Dashed: the share of the attacked images for which the attack found no wrong answer. On the same images the "
    "truth is between certified and attacked; where fewer images were attacked than certified, the curves can cross."
)


def caption(entries: Sequence[Entry]) -> str:
    """What the curves show."""
    return f"Certified accuracy, % of all images.{DASHED if any(map(attacked.attack_on, entries)) else ''}"


def figure(entries: Sequence[Entry]) -> str:
    """Certified accuracy over the radius, and attacked accuracy as a dashed curve where there was an attack."""
    end = 1.02 * max(entry.summary.largest for entry in entries) or 1.0
    frame = Chart("Certified accuracy over the radius", (end, 100.0), height=430.0)
    drawn = "".join(_run(frame, entry, number, band=len(entries) <= MOST_BANDS) for number, entry in enumerate(entries))
    along = [(mark, radius_text(round(mark, 6))) for mark in chart.ticks_up_to(end, MOST_TICKS)]
    up_to = [(value, f"{value:.0f}") for value in range(0, 101, 20)]
    place = f' data-left="{frame.x(0):.1f}" data-right="{frame.x(end):.1f}" data-end="{end!r}"'
    return frame.svg(drawn, along, up_to, "Radius (l2, pixels in [0, 1])", place)


def _run(frame: Chart, entry: Entry, number: int, *, band: bool) -> str:
    """The curves of one input, in its colour."""
    parts = (_certified if entry.summary.asked is None else _tested)(frame, entry, band)
    if attack := attacked.attack_on(entry):
        limit = min(attack.largest, frame.end[0])
        ends = [0.0, *sorted({row.distance for row in attack.rows if row.distance and row.distance < limit}), limit]
        shares = [100 * attack.resisted(radius)[0] / len(attack.rows) for radius in ends]
        points = [(ends[0], shares[0]), *((x, y) for (_, y), (x, _) in pairwise(zip(ends, shares, strict=True)))]
        parts += f'<path class="attacked" d="{frame.steps(points)}"/>'
    return f'<g class="run run-{number}" style="--c: var(--c{number})">{parts}</g>'


def _certified(frame: Chart, entry: Entry, band: bool) -> str:
    radii = [frame.end[0] * number / POINTS for number in range(POINTS + 1)]
    shares = [entry.summary.at(radius).value for radius in radii]
    shown_to = shares.index(0.0) + 1 if 0.0 in shares else len(shares)
    points = [(radius, 100 * share) for radius, share in zip(radii, shares, strict=True)][:shown_to]
    drawn = f'<path class="curve" d="{frame.steps(points)}"/>'
    return (_band(frame, entry, radii[:shown_to]) if band else "") + drawn


def _band(frame: Chart, entry: Entry, radii: Sequence[float]) -> str:
    ends = [entry.summary.interval(radius) for radius in radii[::4]]
    above = [(radius, 100 * high) for radius, (_, high) in zip(radii[::4], ends, strict=True)]
    below = [(radius, 100 * low) for radius, (low, _) in zip(radii[::4], ends, strict=True)]
    return f'<path class="band" d="{frame.line([*above, *reversed(below)])}Z"/>'


def _tested(frame: Chart, entry: Entry, band: bool) -> str:
    """A point at each tested radius; between two of them the curve shows what the larger one proves."""
    points: list[Point] = [(radius, 100 * entry.summary.at(radius).value) for radius in entry.summary.asked or ()]
    dots = "".join(f'<circle class="dot" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="4.5"/>' for x, y in points)
    ends = [(radius, *entry.summary.interval(radius)) for radius in entry.summary.asked or ()] if band else []
    bars = "".join(f'<path class="bar" d="{frame.line([(x, 100 * low), (x, 100 * high)])}"/>' for x, low, high in ends)
    return f'{bars}<path class="curve faint" d="{frame.steps(points)}"/>{dots}'


def data(entries: Sequence[Entry], start: float) -> str:
    """What the script shows, as JSON that is safe inside a page: texts for every radius that can be read off.

    `start` is the radius that is shown first.
    """
    radii = _radii(entries)
    runs = [_readings(entry, entries[0], radii) for entry in entries]
    found: dict[str, Any] = {"radii": radii, "texts": list(map(radius_text, radii)), "runs": runs, "start": start}
    dimensions = {dimensions_of(entry) for entry in entries}
    if len(dimensions) == 1 and (count := dimensions.pop()):
        found["dimensions"] = count
    return json.dumps(found, separators=(",", ":")).replace("<", "\\u003c").replace("//", "/\\u002f")


def _radii(entries: Sequence[Entry]) -> list[float]:
    """Round radii up to the largest there is, and every tested one."""
    largest = max(entry.summary.largest for entry in entries)
    step = chart.step_for(largest or 1.0, READINGS)
    count = math.floor((largest or 1.0) / step + 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    asked = {radius for entry in entries for radius in entry.summary.asked or ()}
    return sorted({round(step * number, digits) for number in range(count + 1)} | asked)


def _readings(entry: Entry, first: Entry, radii: Sequence[float]) -> dict[str, Any]:
    summary, attack = entry.summary, attacked.attack_on(entry)
    compared = [None] * len(radii) if entry is first else paired.differences(summary, first.summary, radii)
    found: dict[str, Any] = {
        "name": entry.name,
        "value": [shown(summary.known(radius), 1, 2) for radius in radii],
        "interval": [_interval(entry, radius) for radius in radii],
        "difference": ["" if each is None else _signed(each) for each in compared],
    }
    if attack is not None:
        shares = [attacked.attacked_accuracy(attack, radius) for radius in radii]
        found["attacked"] = [UNKNOWN if share is None else up(share.value, 1, 2) for share in shares]
    return found


def _interval(entry: Entry, radius: float) -> str:
    if not entry.summary.decided(radius):
        return ""
    lower, upper = entry.summary.interval(radius)
    return f"{down(lower, 1, 2)}–{up(upper, 1, 2)}"  # noqa: RUF001


def _signed(found: paired.Difference) -> str:
    """A difference in points, rounded down, and its interval, rounded outwards."""
    value, lower, upper = down(found.value, 1, 2), down(found.lower, 1, 2), up(found.upper, 1, 2)
    return f"{_with_sign(value)} ({_with_sign(lower)} to {_with_sign(upper)})"


def _with_sign(number: str) -> str:
    return number if float(number) < 0 else f"+{number}" if float(number) else number.removeprefix("-")


def dimensions_of(entry: Entry) -> int | None:
    """The number of pixels times channels of an input's images, where the run says it."""
    if entry.run is None or not entry.run.finished:
        return None
    spec = readers.weights_metadata(entry.run.weights_file).get("spec")
    shape = readers.parse_object(spec, "the spec of the weights").get("shape") if spec else None
    whole = isinstance(shape, list) and len(shape) == 3 and all(isinstance(side, int) and side > 0 for side in shape)
    return math.prod(shape) if whole and shape else None

"""The story of a transfer in one figure: robustness against the time that it took."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from radii.reports.chart import Chart, text, ticks_up_to
from radii.reports.entries import Entry
from radii.reports.facts import duration, epoch_time
from radii.reports.summary import Value, shown
from radii.reports.transfer import cost_file, latest_entries
from radii.runs import readers
from radii.runs.lineage import teachers
from radii.runs.run import Run

UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


class Trained(NamedTuple):
    """A run in the figure."""

    number: int
    name: str
    seconds: float
    acr: Value
    """The average certified radius, or a bound on it."""
    method: str | None
    """What the teacher's method is, for a student."""
    method_seconds: float | None
    """How long the teacher's method would have taken on the student's architecture."""


def transfer_figure(entries: Sequence[Entry]) -> str:
    """ACR over training time: teachers and students, and what the teacher's method would have cost the students."""
    known = latest_entries(entries)
    runs = [found for path in _concerned(known) if (found := _trained(known[path], entries))]
    if not any(run.method for run in runs):
        return ""
    longest = max(max(run.seconds, run.method_seconds or 0.0) for run in runs)
    size, unit = next((size, unit) for size, unit in UNITS if longest >= size or size == 1.0)
    low = min(run.seconds for run in runs) / size / 1.6
    highest, lowest = max(run.acr.value for run in runs) * 1.06 or 1.0, min(run.acr.value for run in runs) * 0.92
    end = longest / size * 1.7, highest
    frame = Chart("Average certified radius (ACR) over training time", end, (low, lowest), 320.0, logarithmic=True)
    drawn = "".join(_drawn(frame, run, size) for run in runs)
    up_to = [(value, f"{value:.4g}") for value in ticks_up_to(highest, 40) if value >= lowest]
    up_to = up_to[:: math.ceil(len(up_to) / 6)]
    return frame.svg(drawn, _decades(low, end[0]), up_to, f"Training time, {unit}") + _key(runs)


def _concerned(known: Mapping[Path, Entry]) -> list[Path]:
    """The students among the runs, and those that taught them."""
    students = [path for path, entry in known.items() if entry.run and cost_file(entry.run).is_file()]
    taught_by = {each.path.resolve() for path in students for each in teachers(Run(path))}
    return [path for path in known if path in students or path in taught_by]


def _trained(entry: Entry, entries: Sequence[Entry]) -> Trained | None:
    run, known = entry.run, entry.summary.known_acr
    measured = epoch_time(run) if run and entry.own else None
    if run is None or measured is None or known is None:
        return None
    number = next(place for place, each in enumerate(entries) if each is entry)
    if not cost_file(run).is_file():
        return Trained(number, entry.name, measured.total, known, None, None)
    cost = readers.transfer_cost(cost_file(run))
    whole = cost["method_seconds_per_epoch"] * _epochs_of_teacher(run, measured.epochs)
    return Trained(number, entry.name, measured.total, known, str(cost["method"]), whole)


def _epochs_of_teacher(run: Run, otherwise: int) -> int:
    """The epochs that the method took with the first teacher; the student's own where that was trained elsewhere."""
    *_, first = run, *teachers(run)
    measured = epoch_time(first)
    return measured.epochs if measured else otherwise


def _drawn(frame: Chart, run: Trained, size: float) -> str:
    """A point, and for a student a hollow one where the teacher's method would have ended."""
    x, y = frame.x(run.seconds / size), frame.y(run.acr.value)
    parts = f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
    if run.method_seconds is not None:
        far = frame.x(run.method_seconds / size)
        parts += f'<path class="attacked" d="M{x:.1f} {y:.1f}H{far:.1f}"/>'
        parts += f'<circle class="hollow" cx="{far:.1f}" cy="{y:.1f}" r="6"/>'
    return f'<g class="run run-{run.number}" style="--c: var(--c{run.number})">{parts}</g>'


def _key(runs: Sequence[Trained]) -> str:
    """The runs in words, in their colours."""
    items = "".join(
        f'<li><span class="dot" style="background: var(--c{run.number})"></span>'
        f"<strong>{text(run.name)}</strong>: {text(_in_words(run))}</li>"
        for run in runs
    )
    return f'<ul class="story">{items}</ul>'


def _in_words(run: Trained) -> str:
    method = "" if run.method_seconds is None else f"; {run.method} would take {duration(run.method_seconds)}"
    return f"ACR {shown(run.acr, 4)} after {duration(run.seconds)}{method}"


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """1, 2 and 5 of every decade within the limits."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return [(value, f"{value:g}") for value in values if low <= value <= high]

"""Students beside their teachers: the robustness that a transfer kept, and its cost."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from radii.reports.inputs import Entry, ReportedRun
from radii.reports.metrics import EpochTime, Value, epoch_time, shown
from radii.reports.tables import Table, text_table
from radii.reports.text import UNKNOWN, down, duration
from radii.runs.lineage import seconds_before, teachers

HEAD = ("", "Taught by", "ACR", "Time per epoch", "Training time", "Teacher’s method here", "Speed-up")  # noqa: RUF001
BASELINE = "gaussian"


def transfers(entries: Sequence[Entry]) -> Table | None:
    """Return a row for every student among the runs; None if there is no student."""
    known = best_entries(entries)
    listed = list(dict.fromkeys(entry.run.path.resolve() for entry in entries if entry.run))
    rows = [_row(known[path], run, known) for path in listed if (run := known[path].run) and run.transfer_cost]
    return text_table(HEAD, rows) if rows else None


def best_entries(entries: Sequence[Entry]) -> dict[Path, Entry]:
    """Return one entry for each run, by path: preferably of its own test split, present weights and an exact ACR."""

    def preference(entry: Entry) -> tuple[bool, bool, bool]:
        return not entry.evaluated_on, entry.own, entry.summary.tested_radii is None

    return {entry.run.path.resolve(): entry for entry in sorted(entries, key=preference) if entry.run}


def _row(entry: Entry, run: ReportedRun, known: Mapping[Path, Entry]) -> list[str]:
    cost, time = run.transfer_cost or {}, run.epoch_time
    method = cost["method_seconds_per_epoch"]
    return [
        entry.name,
        _teacher(run, known),
        _acr(entry),
        str(time) if time else UNKNOWN,
        _training_time(run, time) if time else UNKNOWN,
        f"{cost['method']}, {duration(method)} per epoch ({cost['steps_timed']} steps timed)",
        f"{down(method / time.seconds, 1)} ×" if time else UNKNOWN,  # noqa: RUF001
    ]


def _acr(entry: Entry) -> str:
    return shown(entry.summary.known_acr if entry.own and not entry.evaluated_on else None, 4)


def _teacher(run: ReportedRun, known: Mapping[Path, Entry]) -> str:
    path = run.source("teacher")
    if path is None:
        return UNKNOWN
    teacher = known.get(path.resolve())
    if teacher is None:
        return path.name
    taught, certified = run.origin()["teacher"].get("hash"), teacher.certificates.header.get("weights")
    # The teacher may have been trained again since.
    return f"{path.name}, ACR {_acr(teacher) if taught == certified else UNKNOWN}"


def _training_time(run: ReportedRun, time: EpochTime) -> str:
    """Format the student's time, and its sum with the times of its teachers and soft labels if all are known."""
    recorded = (run.transfer_cost or {}).get("seconds_before", {})
    # The time of a teacher that is gone was recorded when the student was trained.
    before = {what: recorded.get(what) if seconds is None else seconds for what, seconds in seconds_before(run).items()}
    known = [seconds for seconds in before.values() if seconds is not None]
    if len(known) < len(before):
        return duration(time.total)
    words = "teachers’ and soft labels’" if "soft_labels" in before else "teachers’"  # noqa: RUF001
    return f"{duration(time.total)}, {duration(time.total + sum(known))} with the {words}"


class TrainedRun(NamedTuple):
    """A run in the figure of ACR over training time."""

    number: int
    """The number of its entry in the report, which gives the colour."""
    name: str
    seconds: float
    acr: Value
    method: str | None = None
    """The teacher's method, for a student."""
    method_seconds: float | None = None
    """How long the teacher's method would have taken on the student's architecture."""
    baseline: bool = False
    """Whether it was trained with Gaussian noise alone."""

    def __str__(self) -> str:
        method = "" if self.method_seconds is None else f"; {self.method} would take {duration(self.method_seconds)}"
        method += ", with Gaussian noise alone: the baseline" if self.baseline else ""
        return f"ACR {shown(self.acr, 4)} after {duration(self.seconds)}{method}"


def trained_runs(entries: Sequence[Entry]) -> list[TrainedRun]:
    """Return the students among the runs, their teachers, and baselines with known time and ACR; empty if no student.

    A baseline was trained with Gaussian noise alone, at the sigma of a student.
    """
    known = best_entries(entries)
    students = {path: entry.run for path, entry in known.items() if entry.run and entry.run.transfer_cost}
    taught_by = {teacher.path.resolve() for run in students.values() for teacher in teachers(run)}
    sigmas = {run.recipe.sigma for run in students.values()}
    baselines = {path for path, entry in known.items() if entry.run and _is_baseline(entry.run, sigmas)} - taught_by
    shown = {*students, *taught_by, *baselines}
    runs = [
        run._replace(baseline=path in baselines)
        for path, entry in known.items()
        if path in shown and (run := _trained_run(entry, entries))
    ]
    return runs if any(run.method for run in runs) else []


def _is_baseline(run: ReportedRun, sigmas: Collection[float]) -> bool:
    return run.recipe.objective["name"] == BASELINE and run.recipe.sigma in sigmas and run.transfer_cost is None


def _trained_run(entry: Entry, entries: Sequence[Entry]) -> TrainedRun | None:
    run, acr = entry.run, entry.summary.known_acr
    if run is None or not entry.own or run.epoch_time is None or acr is None:
        return None
    number = next(number for number, other in enumerate(entries) if other is entry)
    trained = TrainedRun(number, entry.name, run.epoch_time.total, acr)
    if run.transfer_cost is None:
        return trained
    # Assume the first teacher's number of epochs, or the student's own if the teacher was trained elsewhere.
    *_, first = run, *teachers(run)
    epochs = (epoch_time(first) or run.epoch_time).epochs
    seconds = run.transfer_cost["method_seconds_per_epoch"] * epochs
    return trained._replace(method=str(run.transfer_cost["method"]), method_seconds=seconds)

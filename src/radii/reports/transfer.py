"""Teacher and student side by side: the robustness that a transfer kept, and its cost."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from radii.reports.entries import Entry
from radii.reports.facts import duration, epoch_time, per_epoch
from radii.reports.summary import UNKNOWN, down, shown
from radii.reports.tables import Cell, Table
from radii.runs import readers
from radii.runs.lineage import seconds_before
from radii.runs.run import Run

HEAD = ("", "Taught by", "ACR", "Time per epoch", "Training time", "Teacher’s method here", "Speed-up")  # noqa: RUF001


def transfers(entries: Sequence[Entry]) -> Table | None:
    """A row for every student among the runs; none where there is no student."""
    known = latest_entries(entries)
    listed = list(dict.fromkeys(entry.run.path.resolve() for entry in entries if entry.run))
    students = [known[path] for path in listed if cost_file(Run(path)).is_file()]
    return Table(HEAD, [_row(entry, entry.run, known) for entry in students if entry.run]) if students else None


def latest_entries(entries: Sequence[Entry]) -> dict[Path, Entry]:
    """The best entry of every run: of its own test split, of its present weights, with an exact ACR."""
    return {entry.run.path.resolve(): entry for entry in sorted(entries, key=_worth) if entry.run}


def _worth(entry: Entry) -> tuple[bool, bool, bool]:
    return not entry.evaluated, entry.own, entry.summary.asked is None


def cost_file(run: Run) -> Path:
    """The file with the cost of the teacher's method on the student's architecture."""
    return run.path / "transfer.json"


def _row(entry: Entry, run: Run, known: dict[Path, Entry]) -> list[Cell]:
    cost = readers.transfer_cost(cost_file(run))
    mine = epoch_time(run)
    method = cost["method_seconds_per_epoch"]
    time = duration(mine.total) if mine else UNKNOWN
    texts = [
        entry.name,
        _teacher(run, known),
        _acr(entry),
        per_epoch(mine) if mine else UNKNOWN,
        f"{time}{_in_all(mine.total, _before(run, cost))}" if mine else UNKNOWN,
        f"{cost['method']}, {duration(method)} per epoch ({cost['steps_timed']} steps timed)",
        f"{down(method / mine.seconds, 1)} ×" if mine else UNKNOWN,  # noqa: RUF001
    ]
    return [Cell(text) for text in texts]


def _acr(entry: Entry) -> str:
    return shown(entry.summary.known_acr if entry.own and not entry.evaluated else None, 4)


def _teacher(run: Run, known: dict[Path, Entry]) -> str:
    path = run.source("teacher")
    if path is None:
        return UNKNOWN
    teacher = known.get(path.resolve())
    if teacher is None:
        return path.name
    taught, certified = run.origin()["teacher"].get("hash"), teacher.certificates.header.get("weights")
    # A teacher that was trained again is not the one that taught.
    return f"{path.name}, ACR {_acr(teacher) if taught == certified else UNKNOWN}"


def _before(run: Run, cost: Mapping[str, Any]) -> Mapping[str, float | None]:
    """The time spent before the student: of the runs that are there, or as it was when the student was trained."""
    found = seconds_before(run)
    recorded = cost.get("seconds_before", {})
    return {what: recorded.get(what) if seconds is None else seconds for what, seconds in found.items()}


def _in_all(own: float, before: Mapping[str, float | None]) -> str:
    """The time with all that came before; nothing where a part of it is unknown, as of a model from elsewhere."""
    known = [seconds for seconds in before.values() if seconds is not None]
    if len(known) < len(before):
        return ""
    words = "teachers’ and soft labels’" if "soft_labels" in before else "teachers’"  # noqa: RUF001
    return f", {duration(own + sum(known))} with the {words}"

"""Teacher and student side by side: what a transfer kept of the robustness and what it cost."""

from collections.abc import Sequence
from pathlib import Path

from radii.experiment import readers
from radii.experiment.lineage import teachers
from radii.experiment.run import Run
from radii.report.entries import Entry
from radii.report.facts import UNKNOWN, duration, epoch_time, per_epoch
from radii.report.summary import down
from radii.report.tables import Cell, Table

HEAD = ("", "Taught by", "ACR", "Time per epoch", "Training time", "Teacher’s method here", "Speed-up")  # noqa: RUF001


def transfers(entries: Sequence[Entry]) -> Table | None:
    """A row for every student among the runs; none where there is no student."""
    known = {entry.run.path.resolve(): entry for entry in entries if entry.run}
    students = [entry for entry in known.values() if entry.run and price_file(entry.run).is_file()]
    return Table(HEAD, [_row(entry, entry.run, known) for entry in students if entry.run]) if students else None


def price_file(run: Run) -> Path:
    """What the teacher's method would have cost on the student's architecture."""
    return run.path / "transfer.json"


def _row(entry: Entry, run: Run, known: dict[Path, Entry]) -> list[Cell]:
    price = readers.transfer_cost(price_file(run))
    mine, whole = epoch_time(run), _with_teachers(run)
    method = price["method_seconds_per_epoch"]
    time = duration(mine.total) if mine else UNKNOWN
    texts = [
        entry.name,
        _teacher(run, known),
        down(entry.summary.acr, 4),
        per_epoch(mine) if mine else UNKNOWN,
        time if whole is None else f"{time}, with the teachers’ {duration(whole)}",  # noqa: RUF001
        f"{price['method']}, {duration(method)} per epoch ({price['steps_timed']} steps timed)",
        f"{method / mine.seconds:.1f} ×" if mine else UNKNOWN,  # noqa: RUF001
    ]
    return [Cell(text) for text in texts]


def _teacher(run: Run, known: dict[Path, Entry]) -> str:
    path = run.source("teacher")
    if path is None:
        return UNKNOWN
    teacher = known.get(path.resolve())
    return path.name if teacher is None else f"{path.name}, ACR {down(teacher.summary.acr, 4)}"


def _with_teachers(run: Run) -> float | None:
    """Training time of a student and of all the teachers before it; none where one was trained elsewhere."""
    measured = [epoch_time(each) for each in (run, *teachers(run))]
    totals = [each.total for each in measured if each is not None]
    return sum(totals) if len(totals) == len(measured) else None

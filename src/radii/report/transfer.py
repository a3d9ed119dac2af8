"""Teacher and student side by side: what a transfer kept of the robustness and what it cost."""

import json
from collections.abc import Sequence
from pathlib import Path

from radii.experiment.run import Run
from radii.report.accuracy import down
from radii.report.facts import UNKNOWN, duration, pace, per_epoch
from radii.report.inputs import Input
from radii.report.tables import Cell, Table

HEAD = (
    "",
    "Taught by",
    "ACR",
    "Teacher’s ACR",  # noqa: RUF001
    "Time per epoch",
    "Training time",
    "with the teachers’",  # noqa: RUF001
    "Teacher’s method, time per epoch",  # noqa: RUF001
    "Speed-up",
)


def transfers(entries: Sequence[Input]) -> Table | None:
    """A row for every student among the runs; none where there is no student."""
    known = {entry.run.path.resolve(): entry for entry in entries if entry.run}
    students = [entry for entry in known.values() if entry.run and price_file(entry.run).is_file()]
    return Table(HEAD, [_row(entry, entry.run, known) for entry in students if entry.run]) if students else None


def price_file(run: Run) -> Path:
    """What the teacher's method would have cost on the student's architecture."""
    return run.path / "transfer.json"


def _row(entry: Input, run: Run, known: dict[Path, Input]) -> list[Cell]:
    price = json.loads(price_file(run).read_text())
    teacher = known.get(Path(price["teacher"]).resolve())
    mine, whole = pace(run), _with_teachers(run)
    method = price["method_seconds_per_epoch"]
    texts = [
        entry.name,
        Path(price["teacher"]).name,
        down(entry.accuracy.acr, 4),
        down(teacher.accuracy.acr, 4) if teacher else UNKNOWN,
        per_epoch(mine) if mine else UNKNOWN,
        duration(mine.total) if mine else UNKNOWN,
        duration(whole) if whole is not None else UNKNOWN,
        f"{price['method']}: {duration(method)}, extrapolated from {price['steps_timed']} steps",
        f"{method / mine.seconds:.1f}" if mine else UNKNOWN,
    ]
    return [Cell(text) for text in texts]


def _with_teachers(run: Run) -> float | None:
    """Training time of a student and of all the teachers before it; none where one was trained elsewhere."""
    measured = pace(run)
    if measured is None:
        return None
    if "teacher" not in run.origin():
        return measured.total
    before = _with_teachers(Run(run.origin()["teacher"]["run"]))
    return None if before is None else measured.total + before

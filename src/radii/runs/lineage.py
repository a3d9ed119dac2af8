"""Lineage: the teachers and soft labels that a run was trained with, and the time that they took."""

import math
import os
from collections.abc import Sequence

from radii.runs import readers
from radii.runs.run import Run, RunError


def teachers(run: Run) -> list[Run]:
    """Return the run's teacher, the teacher's teacher and so on; raise a RunError for a circular chain."""
    chain = [run]
    seen = {os.path.realpath(run.path)}
    while (teacher := chain[-1].source("teacher")) is not None:
        if (path := os.path.realpath(teacher)) in seen:
            file = chain[-1].origin_file
            raise RunError(
                f"{file} names {teacher} as the teacher, which makes a circle. Correct the teacher of one run."
            )
        seen.add(path)
        chain.append(Run(teacher, run.trusted))
    return chain[1:]


def seconds_before(run: Run) -> dict[str, float | None]:
    """Return the seconds spent on teachers and soft labels before a run's own training; None where unknown.

    Soft labels take the training of the run that votes, and its votes, over all processes. The soft labels of the
    teachers are included.
    """
    chain = teachers(run)
    seconds = {"teachers": _sum([training_seconds(teacher) for teacher in chain])}
    labels = [_soft_label_seconds(link) for link in (run, *chain) if link.source("soft_labels") is not None]
    return {**seconds, "soft_labels": _sum(labels)} if labels else seconds


def training_seconds(run: Run) -> float | None:
    """Return the seconds of all epochs of a run; None if it has no epochs."""
    seconds = [float(row["seconds"]) for row in run.history()]
    return math.fsum(seconds) if seconds else None


def _soft_label_seconds(run: Run) -> float | None:
    labels = run.source("soft_labels")
    if labels is None:
        return None
    voter = Run(labels.parent, run.trusted)
    if not voter.soft_labels_times.is_file():
        return None
    votes = readers.doubles(voter.soft_labels_times)
    return _sum([training_seconds(voter), None if any(map(math.isnan, votes)) else math.fsum(votes)])


def _sum(times: Sequence[float | None]) -> float | None:
    """Add times; None if one of them is unknown."""
    known = [time for time in times if time is not None]
    return math.fsum(known) if len(known) == len(times) else None

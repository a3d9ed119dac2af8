"""What a run was made from, and the time that it all took: the chain of its teachers, and soft labels."""

import math
import os
from collections.abc import Sequence

from radii.runs import readers
from radii.runs.run import Run, RunError


def teachers(run: Run) -> list[Run]:
    """The run's teacher, that one's teacher and so on; a circular chain is refused."""
    found: list[Run] = []
    seen = {os.path.realpath(run.path)}
    while (before := (found[-1] if found else run).source("teacher")) is not None:
        if (place := os.path.realpath(before)) in seen:
            pointing = (found[-1] if found else run).origin_file
            raise RunError(f"{pointing} names {before} as the teacher, in a circle: correct one of the two")
        seen.add(place)
        found.append(Run(before, run.trusted))
    return found


def seconds_before(run: Run) -> dict[str, float | None]:
    """The time spent before a run's own training, by what it was spent on; None where it is not known.

    Soft labels are those of the run and of its teachers: the training of the run that votes, and its votes, of all
    processes together.
    """
    before = teachers(run)
    found = {"teachers": _sum([training_seconds(each) for each in before])}
    labels = [_soft_label_seconds(each) for each in (run, *before) if each.source("soft_labels") is not None]
    return {**found, "soft_labels": _sum(labels)} if labels else found


def training_seconds(run: Run) -> float | None:
    """The time of a run's epochs, where it has trained any."""
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


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return math.fsum(known) if len(known) == len(parts) else None

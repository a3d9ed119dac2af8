"""The chain of teachers of a run."""

import os

from radii.experiment.run import Run, RunError


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

"""Item 15: several processes write one file."""

import os
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from radii.disk import LockedError
from radii.runs import certificates
from radii.runs.run import Run
from radii.training.loop import train
from radii.training.soft_labels import soft_labels
from tools import crash_points
from tools.stress.outcome import Effort, Outcome

DONE, LOCKED, FAILED = 0, 2, 1


def writers(effort: Effort) -> Outcome:
    """Three processes certify one run, make its soft labels or train in one directory at once: the rows, labels and
    weights must be those of one process, and the processes that do not write must say which one does."""
    template = effort.folder / "template"
    template.mkdir()
    crash_points.prepare(template)
    cases: Counter[str] = Counter()
    bad: dict[str, list[str]] = {"doubled": [], "lost or changed": [], "failures": []}
    for _ in range(races := effort.times(10, 1)):
        for name, (act, content) in ACTS.items():
            cases += _race(name, act, content, effort, bad)
    remark = f"{cases[str(DONE)]} processes wrote or had nothing left to do, {cases[str(LOCKED)]} named the writer"
    return Outcome({"races each": races, "kinds": len(ACTS), "writers": 3}, bad, remark)


def _race(
    name: str,
    act: Callable[[Path], object],
    content: Callable[[Path], object],
    effort: Effort,
    bad: dict[str, list[str]],
) -> Counter[str]:
    place, alone = effort.folder / "place", effort.folder / f"alone-{name}"
    if not alone.exists():
        crash_points.fresh(effort.folder / "template", alone)
        _together(act, alone, 1)
    crash_points.fresh(effort.folder / "template", place)
    codes = _together(act, place, 3)
    bad["failures"] += [f"{name}: exit {code}" for code in codes if code not in (DONE, LOCKED)]
    bad["failures"] += [f"{name}: nobody wrote"] if DONE not in codes else []
    try:
        bad["lost or changed"] += [] if content(place) == content(alone) else [name]
    except ValueError as error:
        bad["doubled" if "twice" in str(error) else "lost or changed"].append(f"{name}: {error}")
    return Counter(map(str, codes))


def _together(act: Callable[[Path], object], folder: Path, count: int) -> list[int]:
    """Start processes at the same moment, and return their exit codes."""
    reading, writing = os.pipe()
    children = [_child(act, folder, reading, writing) for _ in range(count)]
    os.close(reading)
    os.close(writing)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _child(act: Callable[[Path], object], folder: Path, reading: int, writing: int) -> int:
    if child := os.fork():
        return child
    code = FAILED
    try:
        os.close(writing)
        os.read(reading, 1)  # until all have begun
        act(folder)
        code = DONE
    except LockedError:
        code = LOCKED
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def _rows(folder: Path) -> object:
    (path,) = Run(folder / "trained").certificates.glob("*.tsv")
    return [(row.index, row.prediction, row.radius, dict(row.counts)) for row in certificates.read(path).rows]


def _table(folder: Path) -> object:
    return np.load(Run(folder / "trained").soft_labels_file).tolist()


def _weights(folder: Path) -> object:
    return Run(folder / "new").weights().read_bytes()


ACTS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "certify": (crash_points.do_certify, _rows),
    "soft labels": (lambda folder: soft_labels(Run(folder / "trained"), samples=8, engine="torch"), _table),
    "train": (lambda folder: train(crash_points.recipe(folder), folder / "new"), _weights),
}
"""What the processes do, and how to read the result."""

"""Item 18: damaged files for every reader."""

import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.fuzz import complaints, fuzz
from tools.readers import READERS
from tools.stress.outcome import Effort, Outcome

DAMAGES, SECONDS = 10_000, 1800.0
"""Of a reader, whichever comes first."""
FEW = 20
"""Damages of a reader in the short form."""


def readers(effort: Effort) -> Outcome:
    """Files of every kind with one to three random damages (flipped bits, cuts, insertions, extreme numbers, deep
    nesting) given to their readers, each with ten seconds and 512 MB: they are read, or refused in one sentence that
    names the file. Every .mat file is read in a process of its own, a fork of one that has scipy loaded."""
    damage = partial(damaged, effort.folder, effort.times(DAMAGES, FEW), effort.seed)
    if effort.short:
        return told({name: damage(name) for name in READERS})
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return told(dict(zip(READERS, pool.map(damage, READERS), strict=True)))


def damaged(folder: Path, count: int, seed: int, name: str) -> Counter[str]:
    """The outcomes of one reader."""
    warnings.simplefilter("ignore")
    with TemporaryDirectory(dir=folder) as place:
        return fuzz(READERS[name], Path(place), count, seed, SECONDS)


def told(found: dict[str, Counter[str]]) -> Outcome:
    total = sum(found.values(), Counter[str]())
    wrong = [f"{name}: {case}" for name, each in found.items() for case in complaints(each)]
    hangs = [case for case in wrong if "took more than" in case]
    memory = [case for case in wrong if "of memory" in case]
    rest = [case for case in wrong if case not in hangs and case not in memory]
    counts = {name: sum(each.values()) for name, each in found.items()}
    fewer = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count < max(counts.values()))
    remark = f"{total['refused']:,} refused in a sentence, {total['read']:,} read"
    return Outcome(
        {"readers": len(found), "damaged files": sum(counts.values()), "at most for one reader": max(counts.values())},
        {"tracebacks or unclear messages": rest, "hangs": hangs, "readers beyond their memory": memory},
        f"{remark}; fewer files: {fewer}" if fewer else remark,
    )

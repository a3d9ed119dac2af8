"""docs/reliability.md, written from what came out; each item has a row."""

import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.timing import machine
from tools.stress.outcome import Item, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
HEAD = """# Reliability

What was tried to get a false certificate, a lost or doubled row, a traceback, an orphan or a connection, how often, and
what came out. Written by `scripts/stress`; `scripts/stress --only NUMBER` renews one row, `--short` takes a minute,
writes nothing and is part of the tests.

{machine}, seed {seed}; the items took {minutes} minutes in all. Rows may be of separate runs, beside other work, and of
earlier versions of the code: one run of `scripts/stress` renews them all.
"""
FOOT = """
## What is not covered

- The statistics: that no certifier fails more often than it says is shown by enumeration and simulation in
  `tests/certifiers` and `tests/smoothing`.
- Machines other than this one: GPUs, file systems without locks, power that fails. A kill is a process that ends at
  once; what the system has taken it keeps.
- Base classifiers that are built to pass the probe: one that notices a probe can answer it honestly. Random damage is
  no opponent either: who writes a file on purpose is met by the limits of the readers, not by luck.
- Holes in torch, OpenVINO, ONNX Runtime, Pillow and scipy themselves.
- An editor of certificates who recomputes everything by certifying other weights under the same name: `radii verify`
  compares with the weights and the data that it is given.
"""
TABLE = ("item", "what was tried", "how often", "what came out", "seconds")


def row(number: int, item: Item, outcome: Outcome) -> str:
    """The row of an item: its docstring, its counts, what came out."""
    what = " ".join((item.__doc__ or "").split()).replace("|", r"\|")
    often = ", ".join(f"{count:,} {word}" for word, count in outcome.tried.items())
    return "| " + " | ".join([str(number), what, often, result(outcome), f"{outcome.seconds:.0f}"]) + " |"


def result(outcome: Outcome) -> str:
    """What came out, in words: what must not happen first, with its first case."""
    found = [f"**{len(cases)} {kind}**: {cases[0]}" if cases else f"0 {kind}" for kind, cases in outcome.bad.items()]
    return "; ".join([", ".join(found), *filter(None, [outcome.remark])]).replace("|", r"\|").replace("\n", " ")


def write(rows: Mapping[int, str], seed: int) -> None:
    """Replace these rows of the page; the others stay."""
    kept = {**(_rows(PAGE.read_text()) if PAGE.is_file() else {}), **rows}
    lines = [f"| {' | '.join(TABLE)} |", "| ---: | --- | --- | --- | ---: |", *(kept[key] for key in sorted(kept))]
    seconds = sum(int(line.rstrip(" |").rpartition("|")[2]) for line in kept.values())
    head = HEAD.format(machine=_machine(), seed=seed, minutes=max(1, round(seconds / 60)))
    PAGE.write_text("\n".join([head, *lines]) + "\n" + FOOT)


def _rows(page: str) -> dict[int, str]:
    return {int(found[1]): found[0] for found in re.finditer(r"^\| (\d+) \|.*$", page, re.MULTILINE)}


def _machine() -> str:
    known = machine()
    return f"{known['cores']} cores, {known['capability']}, {known['system']}, torch {known['torch']}"

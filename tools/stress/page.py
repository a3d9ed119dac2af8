"""Write docs/reliability.md: a row for each item."""

import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.timing import machine
from tools.stress.outcome import Item, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
HEAD = """# Reliability

The stress tests look for false certificates, lost or doubled rows, tracebacks, orphaned processes and network
connections. `scripts/stress` writes this page; `scripts/stress --only NUMBER` renews one row. `scripts/stress --short`
takes a minute, writes nothing and is part of the test suite.

{machine}, seed {seed}; the items took {minutes} minutes in all. Rows can come from separate runs, beside other work,
and from earlier versions of the code; one run of `scripts/stress` renews them all.
"""
FOOT = """
## What is not covered

- Statistics: `tests/certifiers` and `tests/smoothing` show by enumeration and simulation that no certifier fails more
  often than it states.
- Other machines: GPUs, file systems without locks, power failures. A kill ends a process at once, but the system keeps
  what was already written.
- Classifiers that are built to pass the probe: one that recognises a probe can answer it correctly. Likewise, random
  damage is not an opponent; the limits of the readers protect against files that are made on purpose.
- Vulnerabilities of torch, OpenVINO, ONNX Runtime, Pillow and scipy.
- Somebody who certifies other weights and replaces the whole run: `radii verify` compares with the weights and the data
  that it gets.
"""
TABLE = ("item", "what is tried", "how often", "result", "seconds")


def row(number: int, item: Item, outcome: Outcome) -> str:
    """Return the row of an item: its docstring, its counts and its result."""
    what = " ".join((item.__doc__ or "").split()).replace("|", r"\|")
    often = ", ".join(f"{count:,} {word}" for word, count in outcome.tried.items())
    return "| " + " | ".join([str(number), what, often, result(outcome), f"{outcome.seconds:.0f}"]) + " |"


def result(outcome: Outcome) -> str:
    """Return the result in words: failures first, with the first case of each kind."""
    failures = [f"**{len(cases)} {kind}**: {cases[0]}" if cases else f"0 {kind}" for kind, cases in outcome.bad.items()]
    return "; ".join([", ".join(failures), *filter(None, [outcome.remark])]).replace("|", r"\|").replace("\n", " ")


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

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
## How far rounding reaches

A replay on another machine excuses a vote only if the two largest logits are closer than rounding brings them, and
refuses another function by the logits of a probe. The limits were set from the table: networks of results/cifar10, on
one machine with its instruction sets restricted, against AVX-512 with one thread; shares are of the largest logit.

| engine and network | instead of AVX-512 | probe, of its class | votes moved | widest gap of a moved vote |
| --- | --- | ---: | ---: | ---: |
| float32, three networks, three engines | another process, 2 threads, batch 64 or 100 | 4e-7 | 0 of 41,472 | - |
| float32, three networks, two engines | AVX2, SSE4.1 | 7e-7 | 0 of 18,432 | - |
| float32, three networks | another engine | 1e-6 | 0 of 7,680 | - |
| bf16, ResNet-20 | AVX-512 without bf16 units | 5e-4 | 0 of 1,536 | - |
| int8, three networks | another process, 2 threads | 0 | 0 of 9,216 | - |
| int8, ResNet-20 | AVX2, AVX-512 without VNNI, SSE4.1 | 0.007 | 7 of 9,216 | 0.002 |
| int8, RegNet | AVX2, SSE4.1 | 0.018 | 12 of 3,072 | 0.015 |
| int8, ViT | AVX2 | 0.18 | 96 of 1,536 | 0.53 |
| int8, ViT | SSE4.1 | 3.3 | 1,374 of 1,536 | 1.0 |
| limit in the same place | | 1e-5 | 0 | 0 |
| limit elsewhere, float32 | | 1e-4 | near ties | 2e-4 |
| limit elsewhere, bf16 and int8 | | 0.05 | near ties | 0.02 |

So int8 without VNNI is another function for some networks, and is refused as such: certify and deploy int8 on machines
of one kind. GPUs were not measured; where one is involved the limit of float32 is 0.01, for TF32.

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

"""Try every fault, fuzz and race, print what came out and write it to docs/reliability.md."""

import argparse
import sys
import time
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tools.stress import page
from tools.stress.items import ITEMS
from tools.stress.outcome import Effort, Item, Outcome

MEMORY = Path("/dev/shm")
"""Files here cost no disk."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/stress", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a minute, for CI; writes no page")
    parser.add_argument("--only", type=int, nargs="+", choices=list(ITEMS), help="numbers of items", metavar="ITEM")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    outcomes = run(given.only or ITEMS, given.short, given.seed)
    sys.exit(any(each.cases for each in outcomes.values()))


def run(numbers: Collection[int], short: bool, seed: int) -> dict[int, Outcome]:
    """The outcomes of these items, one after the other, told as they come."""
    outcomes = {}
    for number in numbers:
        outcomes[number] = attempt(ITEMS[number], short, seed)
        if not short:
            page.write({number: page.row(number, ITEMS[number], outcomes[number])}, seed)
        print(f"{number:2} {outcomes[number].seconds:4.0f} s  {page.result(outcomes[number])}", flush=True)
    return outcomes


def attempt(item: Item, short: bool, seed: int) -> Outcome:
    """One item in an empty folder, timed."""
    began = time.perf_counter()
    with TemporaryDirectory(prefix="radii-stress-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        outcome = item(Effort(Path(folder), short, seed))
    return replace(outcome, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main()

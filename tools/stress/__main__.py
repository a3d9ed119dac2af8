"""Run the stress tests (faults, fuzz, races), print their results and write them to docs/reliability.md."""

import argparse
import signal
import sys
import time
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tools.stress import certificates, claims, intrusions, kills, page, races, reports, servers, untrusted, votes
from tools.stress.outcome import Effort, Item, Outcome

MEMORY = Path("/dev/shm")
"""A folder in memory, if there is one."""
ITEMS: dict[int, Item] = {
    1: votes.miscounts,
    2: votes.dependent,
    3: votes.folding,
    4: votes.threads,
    5: certificates.other_data,
    6: certificates.identities,
    7: certificates.engine_choice,
    8: certificates.mutations,
    9: certificates.seeds,
    10: certificates.verification,
    11: reports.dashes,
    12: reports.unlike,
    13: reports.rounding,
    14: votes.last_bits,
    15: races.writers,
    16: kills.stops,
    17: kills.crashes,
    18: untrusted.readers,
    19: untrusted.bars,
    20: untrusted.strangers,
    21: untrusted.security,
    22: kills.killed_workers,
    23: kills.ranks,
    24: claims.norms,
    25: claims.forgeries,
    26: claims.functions,
    27: claims.executors,
    28: claims.repeats,
    29: claims.deployed,
    30: claims.classes,
    31: claims.untested,
    32: claims.abstentions,
    33: claims.protocols,
    34: claims.tails,
    35: intrusions.modules,
    36: intrusions.links,
    37: intrusions.trusted_names,
    38: intrusions.pictures,
    39: intrusions.endless,
    40: intrusions.sentences,
    41: intrusions.overwritten,
    42: intrusions.many_classes,
    43: intrusions.full_disk,
    44: intrusions.stated,
    45: intrusions.documented,
    46: servers.faults,
}
"""The items, by their numbers in docs/reliability.md."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/stress", description=__doc__)
    parser.add_argument("--short", action="store_true", help="take a minute, and write no page")
    parser.add_argument("--only", type=int, nargs="+", choices=list(ITEMS), help="numbers of items", metavar="ITEM")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background jobs ignore it, and their children too
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    outcomes = run(arguments.only or ITEMS, arguments.short, arguments.seed)
    sys.exit(any(outcome.cases for outcome in outcomes.values()))


def run(numbers: Collection[int], short: bool, seed: int) -> dict[int, Outcome]:
    """Run these items one after the other, and print each result."""
    outcomes = {}
    for number in numbers:
        outcomes[number] = attempt(ITEMS[number], short, seed)
        if not short:
            page.write({number: page.row(number, ITEMS[number], outcomes[number])}, seed)
        print(f"{number:2} {outcomes[number].seconds:4.0f} s  {page.result(outcomes[number])}", flush=True)
    return outcomes


def attempt(item: Item, short: bool, seed: int) -> Outcome:
    """Run one item in an empty folder, and time it."""
    began = time.perf_counter()
    with TemporaryDirectory(prefix="radii-stress-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        outcome = item(Effort(Path(folder), short, seed))
    return replace(outcome, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main()

"""The simulation of docs/scaling.md, small: its workers run the code that hands out real work."""

import numpy as np
import pytest

from radii import certifiers
from tools.scaling import prices
from tools.scaling.workers import Machines, simulate

NEAR = np.concatenate([np.full(290, 0.99), np.full(10, 0.852)])
"""Probabilities of labels: most images are cheap, and the last ones lie near the threshold of radius 0.5."""


def test_spreading_blocks_keeps_workers_busy_at_the_end() -> None:
    certifier = certifiers.create("sequential", radii=(0.5,))
    machines = Machines(40, 0.01, 0.0)
    spread, whole = (simulate(certifier, NEAR, machines, 128, each) for each in (False, True))
    assert spread.share > 0.8 > 0.5 > whole.share


def test_nobody_is_faster_than_the_work() -> None:
    certifier = certifiers.create("fixed", selection=100, estimation=2_000)
    found = simulate(certifier, NEAR[:50], Machines(7, 0.001, 3.0, start_each=0.5), 128)
    assert found.samples == 50 * 2_100
    assert found.seconds > 3.0 + found.samples * 0.001 / 7
    assert 0 < found.share < 1


@pytest.mark.parametrize("table", list(prices.tables()), ids=lambda table: table.name)
def test_every_table_is_priced(table: prices.Table) -> None:
    hours = [table.hours(machine) for machine in prices.MACHINES]
    assert hours[0] > hours[-1] > 0

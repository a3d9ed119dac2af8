"""Exact group-sequential tests of a probability (Jennison & Turnbull 2000), for one threshold or for several.

Hits are counted at a few looks, and a test accepts at the first look where they reach its boundary. The boundaries are
computed by exact recursion: a probability at the threshold crosses any of them with probability at most `failure`, and
a smaller one crosses less often. Giving up early can only remove crossings: it costs power, never the guarantee.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, betaincinv

# Tuned on published certification logs by benchmarks/sample_cost.py; other values are as valid, but cost more samples.
FIRST_LOOK = 64
BLOCK = 128
"""Later looks are a multiple of this number of samples apart."""
GROWTH = 0.25
LAST_SHARE = 0.7
"""The share of the failure probability kept for the last look: it then has nearly the power of a test of fixed size."""
TARGET_POWER = 0.99
"""The futility boundaries keep testing probabilities that the last look accepts at least this often."""


class Design(NamedTuple):
    """The boundaries of one test, one number per look."""

    accept: tuple[int, ...]
    """The fewest hits that prove the probability above the threshold; above the number of samples where none do."""
    give_up: tuple[int, ...]
    """The most hits at which to stop and abstain; -1 for never."""


@dataclass(frozen=True, eq=False)
class SequentialTests:
    """Tests of increasing thresholds on the same hits: one is proven when it and all below it have been crossed.

    A false claim needs a crossing of the lowest threshold that the probability does not exceed, so all of them together
    fail no more often than one.
    """

    looks: tuple[int, ...]
    accept: NDArray[np.int64]
    """[look, threshold]"""
    give_up: NDArray[np.int64]
    """[look, threshold]"""

    def update(
        self, look: int, hits: NDArray[np.int64], crossed: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_]]:
        """Count the hits [...] of a look: what is crossed by now [..., threshold], how many are proven, which stop."""
        crossed = crossed | (hits[..., None] >= self.accept[look])
        proven = np.logical_and.accumulate(crossed, axis=-1).sum(-1)
        highest = crossed.shape[-1]
        futile = hits <= self.give_up[look][np.minimum(proven, highest - 1)]
        return crossed, proven, (proven == highest) | futile


@cache
def sequential_tests(
    thresholds: tuple[float, ...], failure: float, most_samples: int, futility: float
) -> SequentialTests:
    """Return tests of increasing thresholds with at most `most_samples`; `futility` is the power lost per look."""
    looks = looks_until(most_samples)
    designs = [design(threshold, failure, looks, futility) for threshold in thresholds]
    accept, give_up = (np.array(rows).T for rows in zip(*designs, strict=True))
    return SequentialTests(looks, accept, give_up)


@cache
def design(threshold: float, failure: float, looks: tuple[int, ...], futility: float) -> Design:
    """Return the test of "the probability is above the threshold", wrong with probability at most `failure`."""
    accept = boundaries(threshold, looks, spending(failure, looks))
    return Design(accept, _futility_boundaries(looks, accept[-1], futility))


@cache
def looks_until(most_samples: int) -> tuple[int, ...]:
    """Return the numbers of samples to look at, about `GROWTH` apart."""
    looks = [min(FIRST_LOOK, most_samples)]
    while looks[-1] < most_samples:
        more = max(1, int(GROWTH * looks[-1]) // BLOCK) * BLOCK
        looks.append(min(looks[-1] + more, most_samples))
    return tuple(looks)


def spending(failure: float, looks: Sequence[int]) -> list[float]:
    """Return the failure probability of every look: the last one's share, the rest in proportion to the samples."""
    *early, _ = looks
    if not early:
        return [failure]
    shares = [(1 - LAST_SHARE) * look / sum(early) for look in early]
    return [failure * share for share in (*shares, LAST_SHARE)]


def boundaries(threshold: float, looks: Sequence[int], spending: Sequence[float]) -> tuple[int, ...]:
    """Return the fewest hits to accept at each look; what a look cannot spend, as hits are whole, goes to the next."""
    walk = _Walk(threshold, negligible=1e-15 * sum(spending))
    accept, unspent = [], 0.0
    for look, share in zip(looks, spending, strict=True):
        walk.advance(look)
        unspent += share
        tails = np.append(np.cumsum(walk.running[::-1])[::-1], 0.0)
        first = int(np.count_nonzero(tails > unspent))
        unspent -= tails[first]
        accept.append(walk.lowest + first)
        walk.stop_from(accept[-1])
    return tuple(accept)


def crossing_probability(probability: float, looks: Sequence[int], accept: Sequence[int]) -> float:
    """Return how often hits of this probability reach a boundary at any look."""
    walk = _Walk(probability, negligible=1e-30)
    return sum(walk.advance(look).stop_from(least) for look, least in zip(looks, accept, strict=True))


class _Walk:
    """The exact distribution of the hits of tests still running, on a window with all but `negligible` of it."""

    def __init__(self, probability: float, negligible: float) -> None:
        self.probability = probability
        self.negligible = negligible
        self.samples = self.lowest = 0
        self.running = np.ones(1)
        """The probability of `lowest`, `lowest` + 1, ... hits."""

    def advance(self, samples: int) -> "_Walk":
        if not self.running.size:
            return self
        first, increments = binomial_window(samples - self.samples, self.probability, self.negligible)
        running = np.convolve(self.running, increments)
        # Without this the window would grow like the sum of the deviations, not like the deviation of the sum.
        lost = int(np.count_nonzero(np.cumsum(running) < self.negligible))
        self.samples, self.lowest, self.running = samples, self.lowest + first + lost, running[lost:]
        return self

    def stop_from(self, hits: int) -> float:
        """Stop the tests with at least this many hits and return the probability of stopping."""
        kept = max(0, hits - self.lowest)
        stopped = float(self.running[kept:].sum())
        self.running = self.running[:kept]
        return stopped


def binomial_window(samples: int, probability: float, negligible: float) -> tuple[int, NDArray[np.float64]]:
    """Return the first hits of a window and its probabilities; outside is less than `negligible` (Bernstein 1924)."""
    weight = math.log(2 / negligible)
    variance = samples * probability * (1 - probability)
    reach = weight / 3 + math.sqrt(weight**2 / 9 + 2 * weight * variance)
    low = max(0, math.floor(samples * probability - reach))
    high = min(samples, math.ceil(samples * probability + reach))
    hits = np.arange(low, high)
    ratios = (samples - hits) / (hits + 1) * (probability / (1 - probability))
    logarithms = np.cumsum(np.append(0.0, np.log(ratios)))
    terms = np.exp(logarithms - logarithms.max())
    return low, terms / terms.sum()


def _futility_boundaries(looks: tuple[int, ...], last_accept: int, futility: float) -> tuple[int, ...]:
    """Return the hits that a probability of the target power gives at most `futility` of the time."""
    if futility == 0:
        return tuple(-1 for _ in looks)
    last = min(last_accept, looks[-1])
    worth = betaincinv(last, looks[-1] - last + 1, TARGET_POWER)
    return tuple(math.ceil(bdtrik(futility, look, worth)) - 1 for look in looks)

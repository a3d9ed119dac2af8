"""A lower bound on the mean of numbers in [0, 1] by betting against smaller means (Waudby-Smith & Ramdas 2024)."""

import math

import numpy as np
from numpy.typing import NDArray

CAPS = np.array([0.5, 0.75, 0.99])
"""Largest share of the capital that a bet may lose (c); the capital is divided evenly among one bettor for each."""
BISECTIONS = 45


def betting_lower(values: NDArray[np.float64], failure: float) -> float:
    """Return a lower bound on the mean of independent draws in order, wrong with probability at most `failure`.

    A bettor against the true mean multiplies the capital 1 / failure times with probability at most `failure`, so every
    mean against which that happens is ruled out; those are the smallest ones.
    """
    bets = _bets(values, failure)
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        mean = (low + high) / 2
        if _best_capital(values, bets, mean) >= -math.log(failure):
            low = mean
        else:
            high = mean
    return low


def _bets(values: NDArray[np.float64], failure: float) -> NDArray[np.float64]:
    """Return the stake of every draw (lambda), which depends only on the draws before it."""
    drawn = np.arange(2, len(values) + 2)
    means = (0.5 + np.cumsum(values)) / drawn
    variances = (0.25 + np.cumsum((values - means) ** 2)) / drawn
    before = np.append(0.25, variances[:-1])
    return np.sqrt(-2 * math.log(failure) / (len(values) * before))


def _best_capital(values: NDArray[np.float64], bets: NDArray[np.float64], mean: float) -> float:
    """Return the logarithm of the greatest capital at any time, of bettors who claim that the mean is greater."""
    stakes = np.minimum(bets, CAPS[:, None] / mean)
    paths = np.cumsum(np.log1p(stakes * (values - mean)), axis=1)
    highest = paths.max()
    return float(highest + np.log(np.exp(paths - highest).mean(axis=0).max()))

"""The betting bound: its coverage, and its published tightness."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

from radii.smoothing.betting import betting_lower
from radii.smoothing.bounds import bernstein_lower

Source = Callable[[np.random.Generator, int], NDArray[np.float64]]


def bernoulli(mean: float) -> Source:
    return lambda rng, count: (rng.random(count) < mean).astype(float)


def ruled_out(draws: NDArray[np.float64], failure: float, mean: float) -> NDArray[np.bool_]:
    """Whether each row of draws rules out a mean, computed bet by bet from the definition."""
    runs, samples = draws.shape
    total, squares, variance = np.full(runs, 0.5), np.full(runs, 0.25), np.full(runs, 0.25)
    capitals = np.ones((3, runs))
    found = np.zeros(runs, dtype=np.bool_)
    for drawn in range(samples):
        bet = np.sqrt(2 * math.log(1 / failure) / (samples * variance))
        for number, cap in enumerate((0.5, 0.75, 0.99)):
            capitals[number] *= 1 + np.minimum(bet, cap / mean) * (draws[:, drawn] - mean)
        found |= capitals.mean(0) >= 1 / failure
        total += draws[:, drawn]
        squares += (draws[:, drawn] - total / (drawn + 2)) ** 2
        variance = squares / (drawn + 2)
    return found


@pytest.mark.parametrize("mean", [0.6, 0.9, 0.995])
def test_equals_the_definition_bet_by_bet(mean: float) -> None:
    values = np.random.default_rng(1).beta(20 * mean, 20 * (1 - mean), 400)
    lower = betting_lower(values, 0.01)
    assert ruled_out(values[None], 0.01, lower - 1e-9).all()
    assert not ruled_out(values[None], 0.01, lower + 1e-9).any()


@pytest.mark.parametrize(("samples", "radius"), [(1_000, 2.41), pytest.param(100_000, 3.77, marks=pytest.mark.slow)])
def test_values_that_are_all_one(samples: int, radius: float) -> None:
    values = np.full(samples, 1 - 1e-6)
    assert ndtri(betting_lower(values, 0.001)) == pytest.approx(radius, abs=5e-3)


@pytest.mark.parametrize("source", [bernoulli(0.99), bernoulli(0.8), lambda rng, count: rng.beta(9, 1, count)])
def test_beats_bernstein(source: Source) -> None:
    values = source(np.random.default_rng(2), 1_000)
    bernstein = bernstein_lower(float(values.mean()), float(values.var(ddof=1)), 1_000, 0.001)
    assert bernstein < betting_lower(values, 0.001) < values.mean()


@pytest.mark.parametrize(
    ("source", "mean"),
    [
        (bernoulli(0.9), 0.9),
        (bernoulli(0.99), 0.99),
        (lambda rng, count: rng.beta(9, 1, count), 0.9),
        (lambda rng, count: rng.beta(0.05, 0.05, count), 0.5),
    ],
)
def test_bound_holds_at_the_stated_failure(source: Source, mean: float) -> None:
    runs, failure = 20_000, 0.05
    draws = source(np.random.default_rng(3), runs * 300).reshape(runs, 300)
    missed = ruled_out(draws, failure, mean)
    sample = [betting_lower(row, failure) > mean for row in draws[:50]]
    assert sample == missed[:50].tolist()
    assert missed.sum() <= failure * runs + 5 * math.sqrt(runs * failure * (1 - failure))


def test_zeros_prove_nothing() -> None:
    assert betting_lower(np.zeros(100), 0.05) < 1e-12

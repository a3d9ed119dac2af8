"""Compute exact bounds and certified radii from numbers, for programs that count votes themselves.

>>> from radii.bounds import clopper_pearson_lower, radius
>>> lower = clopper_pearson_lower(990, 1_000, failure=0.001)
>>> math.floor(1_000 * lower) / 1_000
0.976
>>> math.floor(1_000 * radius(lower, sigma=0.25)) / 1_000
0.494

A bound holds for samples that were not used to choose what is bounded: choose the class by other samples than those
that are counted, and fix the number of samples before you look at any.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from radii.smoothing.betting import betting_lower
from radii.smoothing.bounds import binomial_lower, binomial_upper, gaussian_probability, gaussian_radius

__all__ = [
    "betting_lower_mean",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "probability_for",
    "radius",
    "two_class_radius",
]


def clopper_pearson_lower(hits: int, samples: int, failure: float) -> float:
    """Return a lower bound on a probability that is wrong with probability at most `failure` (Clopper & Pearson 1934).

    The bound is one-sided: it spends all of `failure`.

    >>> clopper_pearson_lower(0, 100, 0.001)
    0.0
    """
    _check(hits, samples, failure)
    return binomial_lower(hits, samples, failure)


def clopper_pearson_upper(hits: int, samples: int, failure: float) -> float:
    """Return an upper bound on a probability that is wrong with probability at most `failure`.

    For a two-sided interval, give half of the failure to either bound.

    >>> clopper_pearson_upper(100, 100, 0.001)
    1.0
    """
    _check(hits, samples, failure)
    return binomial_upper(hits, samples, failure)


def radius(probability: float, sigma: float) -> float:
    """Return the l2 radius that is proven if the top class has at least this probability under Gaussian noise.

    It is 0 if the probability is at most one half: then nothing is proven (Cohen et al. 2019, Theorem 1; the runner-up
    has one minus the probability).

    >>> radius(0.5, sigma=0.25)
    0.0
    """
    _probability("probability", probability)
    return max(0.0, float(gaussian_radius(_sigma(sigma), probability)))


def two_class_radius(probability: float, runner_up: float, sigma: float) -> float:
    """Return the l2 radius that is proven if the top class has at least `probability`, all others at most `runner_up`.

    If both are bounds from the same samples, their failures add up.

    >>> two_class_radius(0.8, 0.2, sigma=0.5) == radius(0.8, sigma=0.5)
    True
    """
    _probability("probability", probability)
    _probability("runner_up", runner_up)
    return max(0.0, float(gaussian_radius(_sigma(sigma), probability, runner_up)))


def probability_for(radius: float, sigma: float) -> float:
    """Return the probability that the top class needs for an l2 radius under Gaussian noise of `sigma`.

    >>> probability_for(0.0, sigma=0.25)
    0.5
    """
    if not radius >= 0:
        raise ValueError(f"radius = {radius}, expected a number >= 0")
    return gaussian_probability(_sigma(sigma), radius)


def betting_lower_mean(values: Sequence[float] | Any, failure: float) -> float:
    """Return a lower bound on the mean of independent draws from [0, 1], such as probabilities of a class, in order.

    For numbers between 0 and 1 it is usually the tightest bound (Waudby-Smith & Ramdas 2024).

    >>> 0.85 < betting_lower_mean([0.9] * 1_000, failure=0.001) < 0.9
    True
    """
    draws = np.asarray(values, dtype=np.float64)
    if draws.ndim != 1 or not len(draws) or not bool(((draws >= 0) & (draws <= 1)).all()):
        raise ValueError("values should be one or more numbers in [0, 1]")
    _failure(failure)
    return betting_lower(draws, failure)


def _check(hits: int, samples: int, failure: float) -> None:
    if not (hits == math.floor(hits) and samples == math.floor(samples) and 0 <= hits <= samples and samples >= 1):
        raise ValueError(f"hits = {hits} of samples = {samples}, expected whole numbers with 0 <= hits <= samples")
    _failure(failure)


def _failure(failure: float) -> None:
    if not 0 < failure < 1:
        raise ValueError(f"failure = {failure}, expected a number > 0 and < 1")


def _probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} = {value}, expected a number from 0 to 1")


def _sigma(sigma: float) -> float:
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma = {sigma}, expected a number > 0")
    return sigma

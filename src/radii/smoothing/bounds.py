"""Bounds on probabilities and means from samples: exact binomial ones (Clopper & Pearson 1934) and others.

scipy is imported inside the functions: a worker process counts votes and bounds nothing, and starts a tenth faster.
"""

import math
from typing import Any


def binomial_lower(hits: float, samples: int, failure: float) -> float:
    """Return a lower bound on a probability that is wrong with probability at most `failure`."""
    from scipy.special import betaincinv

    return 0.0 if hits == 0 else float(betaincinv(hits, samples - hits + 1, failure))


def binomial_upper(hits: float, samples: int, failure: float) -> float:
    """Return an upper bound on a probability that is wrong with probability at most `failure`."""
    from scipy.special import betaincinv

    return 1.0 if hits == samples else float(betaincinv(hits + 1, samples - hits, 1.0 - failure))


def gaussian_radius(sigma: float, probability: Any, runner_up: Any = None) -> Any:
    """Return the l2 radius of a top class of this probability under Gaussian noise (Cohen et al. 2019, Theorem 1).

    `runner_up` bounds the probability of every other class from above; by default it is 1 - probability.
    """
    from scipy.special import ndtri

    if runner_up is None:
        return sigma * ndtri(probability)
    return sigma / 2 * (ndtri(probability) - ndtri(runner_up))


def gaussian_probability(sigma: float, radius: float) -> float:
    """Return the probability that the top class needs for an l2 radius under Gaussian noise."""
    from scipy.special import ndtr

    return float(ndtr(radius / sigma))


def coin_p_value(heads: int, tosses: int) -> float:
    """Return the p-value of the two-sided exact binomial test of a fair coin."""
    from scipy.special import bdtr

    return min(1.0, 2.0 * float(bdtr(min(heads, tosses - heads), tosses, 0.5)))


def hoeffding_lower(mean: float, samples: int, failure: float) -> float:
    """Return a lower bound on the mean of numbers in [0, 1] (Hoeffding 1963)."""
    return mean - math.sqrt(-math.log(failure) / (2 * samples))


def bernstein_lower(mean: float, variance: float, samples: int, failure: float) -> float:
    """Return a lower bound on the mean of numbers in [0, 1] from their unbiased variance (Maurer & Pontil 2009)."""
    weight = math.log(2 / failure)
    return mean - math.sqrt(2 * variance * weight / samples) - 7 * weight / (3 * (samples - 1))


def fewest_to_certify(failure: float) -> int:
    """Return the fewest samples that can prove a probability of one half or more, if all are hits."""
    samples = max(1, math.floor(math.log(failure) / math.log(0.5)))
    while binomial_lower(samples, samples, failure) < 0.5:
        samples += 1
    return samples


def fewest_to_predict(failure: float) -> int:
    """Return the fewest samples that can separate the top class from the runner-up, if all are hits."""
    samples = 1
    while coin_p_value(samples, samples) > failure:
        samples += 1
    return samples

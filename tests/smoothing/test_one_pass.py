"""The bound on the accuracy of one noisy pass: proven polynomials, and coverage by enumeration and simulation."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom

from radii.smoothing import betting
from radii.smoothing.noise import Gaussian
from radii.smoothing.noise import create as create_noise
from radii.smoothing.one_pass import (
    LARGEST,
    PUBLISHED,
    After,
    best_coefficients,
    is_below,
    proven_accuracy,
    random_order,
    violation,
)
from tools.published_guess import quantiles

NOISE = Gaussian(0.5)
FAILURE = 0.05
SETS = 2_000
MIXTURES = {
    "sure and wrong": ((1.0, 0.0), (0.7, 0.3)),
    "all sure": ((1.0,), (1.0,)),
    "all wrong": ((0.0,), (1.0,)),
    "near the threshold": ((0.68, 0.69, 0.70, 0.5), (0.3, 0.3, 0.3, 0.1)),
    "spread": (PUBLISHED, (1 / len(PUBLISHED),) * len(PUBLISHED)),
}


def after(radius: float) -> After:
    def least(probability: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(NOISE.probability_after(probability, radius))

    return least


def polynomial(coefficients: NDArray[np.float64], probability: NDArray[np.float64]) -> NDArray[np.float64]:
    votes = len(coefficients) - 1
    return binom.pmf(np.arange(votes + 1), votes, probability[:, None]) @ coefficients  # type: ignore[no-any-return]


@pytest.mark.parametrize("votes", [1, 5, 20, 40])
@pytest.mark.parametrize("radius", [0.0, 0.25, 0.5, 1.5])
def test_polynomial_is_nowhere_above_the_probability_after_an_attack(votes: int, radius: float) -> None:
    g = after(radius)
    coefficients = best_coefficients(g, votes, PUBLISHED, 1_000, FAILURE)
    assert is_below(coefficients, g)
    grid = np.concatenate(
        [np.linspace(0, 1, 20_001), np.random.default_rng(0).random(20_000), 1 - np.logspace(-15, -1)]
    )
    assert (polynomial(coefficients, grid) <= NOISE.probability_after(grid, radius) + 1e-12).all()


def test_a_polynomial_that_is_above_only_between_two_points_is_found() -> None:
    """q touches a grid of 21 points from below and exceeds g by 1e-4 between two of them."""
    votes, g = 20, after(0.25)
    coefficients = best_coefficients(g, votes, PUBLISHED, 1_000, FAILURE)
    middle = 0.7125
    gap = float(NOISE.probability_after(middle, 0.25) - polynomial(coefficients, np.array([middle]))[0])
    bump = binom.pmf(np.arange(votes + 1), votes, middle)
    raised = coefficients + (gap + 1e-4) * bump / float(bump @ bump)
    grid = np.linspace(0, 1, 20_001)
    excess = polynomial(raised, grid) - NOISE.probability_after(grid, 0.25)
    assert excess.max() > 5e-5
    assert not is_below(raised, g)
    assert violation(raised, g) >= excess.max()


def test_a_polynomial_that_obeys_a_grid_and_no_more_is_found() -> None:
    """Maximise q in the middle of one gap of a grid, under q <= g on the grid alone."""
    votes, grid, middle = 40, np.linspace(0, 1, 17), 0.71875
    rows = binom.pmf(np.arange(votes + 1), votes, np.append(grid, middle)[:, None])
    solved = linprog(-rows[-1], A_ub=rows[:-1], b_ub=NOISE.probability_after(grid, 0.25), bounds=(-1, 1))
    assert (polynomial(solved.x, grid) <= NOISE.probability_after(grid, 0.25) + 1e-7).all(), "the grid sees nothing"
    fine = np.linspace(0, 1, 10_001)
    worst = float((polynomial(solved.x, fine) - NOISE.probability_after(fine, 0.25)).max())
    assert worst > 0.01
    assert not is_below(solved.x, after(0.25))
    assert worst <= violation(solved.x, after(0.25)) <= worst + 2e-4


@pytest.mark.parametrize("coefficients", [[0.0], [0.0, 2 * LARGEST], [0.0, math.nan], [0.0] * 202])
def test_coefficients_that_the_margin_does_not_cover_are_refused(coefficients: list[float]) -> None:
    with pytest.raises(ValueError, match="coefficient"):
        violation(np.array(coefficients), after(0.25))


def test_unproven_coefficients_end_in_finite_time() -> None:
    """At radius 0 q equals g everywhere: no number of intervals can prove it with a margin."""
    assert not is_below(np.arange(3) / 2, after(0.0))


def test_grid_noise_pays_for_its_sampler() -> None:
    grid = create_noise("grid", sigma=0.5)

    def g(probability: NDArray[np.float64]) -> NDArray[np.float64]:
        return grid.probability_after(probability, 0.5)  # type: ignore[no-any-return]

    assert is_below(best_coefficients(g, 20, PUBLISHED, 1_000, FAILURE), g)


@pytest.mark.parametrize("votes", [1, 2, 3])
@pytest.mark.parametrize("images", [1, 2, 3])
@pytest.mark.parametrize("probabilities", [(0.9, 0.3), (1.0, 0.5), (0.75, 0.75), (0.999, 0.0)])
def test_exact_failure_of_small_samples(votes: int, images: int, probabilities: tuple[float, float]) -> None:
    """Enumerate every outcome: an image is one of two, each with probability one half."""
    failure, radius = 0.2, 0.25
    coefficients = best_coefficients(after(radius), votes, PUBLISHED, images, failure)
    truth = float(np.mean([NOISE.probability_after(p, radius) for p in probabilities]))
    chances = np.mean([binom.pmf(np.arange(votes + 1), votes, p) for p in probabilities], axis=0)
    wrong = sum(
        math.prod(chances[list(hits)])
        for hits in itertools.product(range(votes + 1), repeat=images)
        if proven_accuracy(coefficients, np.array(hits), failure) > truth
    )
    assert wrong <= failure


@pytest.mark.stress
@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize(("votes", "radius", "images"), [(5, 0.25, 40), (20, 0.5, 120)])
def test_bounds_are_wrong_no_more_often_than_stated(mixture: str, votes: int, radius: float, images: int) -> None:
    probabilities, weights = (np.array(part) for part in MIXTURES[mixture])
    rng = np.random.default_rng([votes, list(MIXTURES).index(mixture)])
    coefficients = best_coefficients(after(radius), votes, PUBLISHED, images, FAILURE)
    truth = float(weights @ NOISE.probability_after(probabilities, radius))
    hits = rng.binomial(votes, rng.choice(probabilities, (SETS, images), p=weights / weights.sum()))
    low, high = coefficients.min(), coefficients.max()
    scaled, mean = ((coefficients - low) / (high - low))[hits], float((truth - low) / (high - low))
    bets = [betting._bets(row, FAILURE) for row in scaled]
    capitals = [betting._best_capital(row, stakes, mean) for row, stakes in zip(scaled, bets, strict=True)]
    claims = [capital >= -math.log(FAILURE) for capital in capitals]
    assert claims[:20] == [proven_accuracy(coefficients, row, FAILURE) > truth for row in hits[:20]]
    wrong = sum(claims)
    assert wrong <= SETS * FAILURE + 3 * math.sqrt(SETS * FAILURE * (1 - FAILURE))


def test_published_probabilities_prove_nearly_the_truth() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.choice(PUBLISHED, 10_000)
    truth = float(NOISE.probability_after(np.array(PUBLISHED), 0.25).mean())
    coefficients = best_coefficients(after(0.25), 20, PUBLISHED, 10_000, FAILURE)
    assert truth - 0.02 <= proven_accuracy(coefficients, rng.binomial(20, probabilities), FAILURE) <= truth


def test_a_wrong_guess_costs_tightness_only() -> None:
    coefficients = best_coefficients(after(0.5), 20, (0.01,), 1_000, FAILURE)
    assert is_below(coefficients, after(0.5))


def test_published_guess_is_that_of_the_logs(logs: Path) -> None:
    assert quantiles(sorted(logs.glob("cifar10-sigma0.50-*.tsv"))) == list(PUBLISHED)


def test_order_is_a_permutation_that_the_seed_determines() -> None:
    images = list(range(0, 500, 5))
    order = random_order(0, images)
    assert sorted(order) == list(range(100)) != order
    assert order == random_order(0, images) != random_order(1, images)
    assert abs(np.corrcoef(order, range(100))[0, 1]) < 0.4

"""Bound the accuracy of one noisy pass under attack, from a few votes on each image of a random sample.

An image whose label has probability p under the noise keeps at least g(p) of it after any change of a given length that
does not know the noise, so the accuracy under attack is at least the mean of g(p) over the population. From k votes,
V of them for the label, no p need be estimated: take coefficients b_0 to b_k such that the polynomial

    q(p) = sum_j b_j C(k, j) p^j (1 - p)^(k - j)

is nowhere above g. Then the mean of b_V is that of q(p), at most that of g(p), and the b_V of independent images are
independent and bounded: any lower bound on their mean is one on the accuracy.
"""

import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from radii.smoothing.betting import betting_lower

Values = NDArray[np.float64]
After = Callable[[Values], Values]
"""g: the least probability after the change, by the probability before it. It does not decrease."""

# fmt: off
PUBLISHED = (
    0.001, 0.0102, 0.0282, 0.0555, 0.092, 0.1396, 0.2011, 0.2466,
    0.2962, 0.3528, 0.4193, 0.5005, 0.58, 0.6576, 0.7264, 0.7858,
    0.837, 0.8794, 0.9137, 0.9411, 0.9606, 0.9751, 0.9854, 0.9918,
    0.9956, 0.998, 0.9992, 0.9996, 0.9999, 0.9999, 0.9999, 0.9999,
)
# fmt: on
"""Probabilities of the label of CIFAR-10 images, from published logs of seven methods (tools/published_guess.py)."""
LOWEST = (0.0, -0.25, -0.5, -1.0)
"""Least coefficients that are tried. Lower ones follow g better and vary more."""
LARGEST = 100.0
"""Coefficients beyond this size are refused, because the margin below does not cover their rounding."""
MOST_VOTES = 200
TIGHT = 1e-4
"""Intervals are split until the bound on q - g is this near its largest value at an end of an interval."""
DEPTH = 50
"""The most splits of an interval: its ends are then still exact in double precision."""
MOST_PIECES = 1 << 16
"""The most intervals that are split at once."""
MARGIN = 1e-9
"""Added for rounding: 200 votes, 50 splits and coefficients up to 100 round by 2e-10 in all, g by less than 1e-12."""


def best_coefficients(after: After, votes: int, guess: Sequence[float], images: int, failure: float) -> Values:
    """Return the coefficients that promise the largest bound for so many images, if p is distributed as guessed.

    A bad guess makes the bound smaller, never wrong. The polynomial is proven to be nowhere above g.
    """
    chance = _basis(np.asarray(guess, dtype=np.float64), votes).mean(0)
    best, promised = np.full(votes + 1, -MARGIN), -math.inf
    for lowest in LOWEST:
        for rising in (False, True) if lowest == LOWEST[1] else (False,):
            coefficients = _program(after, votes, chance, lowest, rising)
            if coefficients is None:
                continue
            mean = float(chance @ coefficients)
            variance = max(float(chance @ coefficients**2) - mean**2, 0.0)
            bound = mean - math.sqrt(-2 * math.log(failure) * variance / images)
            if bound > promised:
                best, promised = coefficients, bound
    return best - max(violation(best, after) + MARGIN, 0.0)


def _program(after: After, votes: int, chance: Values, lowest: float, rising: bool) -> Values | None:
    """Maximise the mean of b_V with q <= g on a grid: a linear program. None if the solver finds nothing."""
    from scipy.optimize import linprog

    grid = np.concatenate([ndtr(np.linspace(-5, 8, 400)), (1 - np.cos(np.linspace(0, np.pi, 4 * votes + 2))) / 2])
    grid = np.unique(np.clip(grid, 0.0, 1.0))
    rows, most = _basis(grid, votes), np.asarray(after(grid), dtype=np.float64)
    rows[rows < 1e-9] = 0.0  # the solver fails on tiny coefficients; the proof afterwards is about all of q
    if rising:
        rows = np.vstack([rows, np.eye(votes, votes + 1) - np.eye(votes, votes + 1, 1)])
        most = np.append(most, np.zeros(votes))
    solved = linprog(-chance, A_ub=rows, b_ub=most, bounds=(lowest, 1.0), method="highs")
    return None if solved.x is None else np.clip(solved.x, lowest, 1.0)


def _basis(probabilities: Values, votes: int) -> Values:
    """Return the probabilities of 0 to `votes` hits: [probability, hits]."""
    from scipy.stats import binom  # not above: it takes a second, which most commands do not need

    chances: Values = binom.pmf(np.arange(votes + 1), votes, probabilities[:, None])
    return chances


def violation(coefficients: Values, after: After, tight: float = TIGHT) -> float:
    """Return a number that q - g exceeds nowhere on [0, 1], rounding included; at most `tight` more than need be.

    On an interval q is at most the largest of its Bernstein coefficients there, which de Casteljau's algorithm
    computes by averaging alone, and g is at least its value at the left end. Intervals where that proves too little are
    split in halves.
    """
    starts, width, pieces = np.zeros(1), 1.0, _checked(coefficients)[None]
    proven = reached = float(pieces[0, -1] - after(np.ones(1))[0])
    for depth in range(DEPTH + 1):
        floors = np.asarray(after(starts), dtype=np.float64)
        excess = pieces.max(1) - floors
        reached = max(reached, float((pieces[:, 0] - floors).max()))
        split = excess > max(reached, -2 * MARGIN) + tight
        if depth == DEPTH or split.sum() > MOST_PIECES:
            split[:] = False  # what is proven so far is valid, if not tight
        proven = max(proven, float(excess[~split].max(initial=-math.inf)))
        if not split.any():
            break
        width /= 2
        left, right = _halves(pieces[split])
        starts, pieces = np.concatenate([starts[split], starts[split] + width]), np.concatenate([left, right])
    return proven + MARGIN


def is_below(coefficients: Values, after: After) -> bool:
    """Return whether q is proven to be nowhere above g."""
    return violation(coefficients, after, tight=0.0) <= 0.0


def _checked(coefficients: Values) -> Values:
    coefficients = np.asarray(coefficients, dtype=np.float64)
    if coefficients.ndim != 1 or not 2 <= len(coefficients) <= MOST_VOTES + 1:
        raise ValueError(f"there are {coefficients.size} coefficients, expected 2 to {MOST_VOTES + 1}")
    if not np.abs(coefficients).max() <= LARGEST:
        raise ValueError(f"a coefficient is {np.abs(coefficients).max():g} in size, expected at most {LARGEST:g}")
    return coefficients


def _halves(pieces: Values) -> tuple[Values, Values]:
    """Return the Bernstein coefficients on the two halves of every interval, by de Casteljau's algorithm."""
    left, right, rest = np.empty_like(pieces), np.empty_like(pieces), pieces
    for step in range(pieces.shape[1]):
        left[:, step], right[:, -1 - step] = rest[:, 0], rest[:, -1]
        rest = (rest[:, :-1] + rest[:, 1:]) / 2
    return left, right


def proven_accuracy(coefficients: Values, hits: NDArray[np.int64], failure: float) -> float:
    """Return a lower bound on the accuracy under attack, from the hits of independent images in random order.

    It is wrong with probability at most `failure`. The coefficients were fixed before the votes.
    """
    low, high = float(coefficients.min()), float(coefficients.max())
    if high <= low:
        return max(low, 0.0)
    scaled = np.clip((coefficients - low) / (high - low), 0.0, 1.0)[hits]
    return max(low + (high - low) * betting_lower(scaled, failure) - MARGIN, 0.0)


def random_order(seed: int, images: Sequence[int]) -> list[int]:
    """Return the positions of images in an order that a seed determines, and nothing about their votes does."""
    keys = [hashlib.sha256(f"order {seed} {image}".encode()).digest() for image in images]
    return sorted(range(len(keys)), key=keys.__getitem__)

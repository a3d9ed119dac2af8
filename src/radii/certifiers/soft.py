"""Mean probabilities in place of votes: certifies the soft smoothed classifier (Zhai et al. 2020, soft-RS)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from radii.certifiers.base import About, Certifier, Steps
from radii.fields import option
from radii.smoothing.betting import betting_lower
from radii.smoothing.bounds import bernstein_lower, hoeffding_lower
from radii.smoothing.questions import Probabilities

SELECTION, ESTIMATION = 0, 1
"""The stages of the noise."""
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Soft(Certifier):
    """The class of the largest mean probability, and its radius: a different classifier from the one that votes.

    Probabilities are the softmax of `sharpness` times the logits; it is fixed before certification, never for an image.
    The paper's bound is `bernstein`; `betting` gives larger radii, most of all where few samples or none disagree.
    """

    selection: int = option(100, ge=1)
    estimation: int = option(100_000, ge=1)
    bound: str = option("bernstein", choices=("bernstein", "hoeffding", "betting"))
    sharpness: float = option(1.0, gt=0)

    def fewest_samples(self) -> tuple[str, int]:
        return "estimation", _fewest(self.bound, self.failure)

    def certify(self, about: About, label: int | None = None) -> Steps:
        top = int((yield Probabilities(SELECTION, 0, self.selection, self.sharpness)).argmax())
        values = yield Probabilities(ESTIMATION, 0, self.estimation, self.sharpness, label=top)
        lower = BOUNDS[self.bound](values, self.failure)
        radius = about.noise.radius(lower) if lower >= 0.5 else -1.0
        return self.proven(top, radius, self.selection + self.estimation, ())


def _bernstein(values: Values, failure: float) -> float:
    return bernstein_lower(float(values.mean()), float(values.var(ddof=1)), len(values), failure)


def _hoeffding(values: Values, failure: float) -> float:
    return hoeffding_lower(float(values.mean()), len(values), failure)


BOUNDS: dict[str, Callable[[Values, float], float]] = {
    "bernstein": _bernstein,
    "hoeffding": _hoeffding,
    "betting": betting_lower,
}


@cache
def _fewest(bound: str, failure: float) -> int:
    """Return the fewest samples that can certify, if all values are one."""
    samples = 2
    while BOUNDS[bound](np.ones(samples), failure) < 0.5:
        samples += 1
    return samples

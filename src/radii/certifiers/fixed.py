"""A fixed number of samples: some pick the class, fresh ones bound its probability (Cohen et al. 2019, CERTIFY)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radii.certifiers.base import About, Certifier, Steps
from radii.fields import option
from radii.smoothing.bounds import binomial_lower, binomial_upper, fewest_to_certify
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise.base import Noise
from radii.smoothing.questions import Votes

SELECTION, ESTIMATION = 0, 1
"""The stages of the noise."""


@dataclass(frozen=True, kw_only=True)
class Fixed(Certifier):
    """Cohen's CERTIFY: abstains where the top class is not proven to have a probability of at least one half.

    The bound `top` assumes that the runner-up has all the probability that the top class is not proven to have.
    `top_two` bounds the runner-up too, from the same samples, each with half of the failure: larger radii where
    several classes share the rest, also for a top class below one half. With a `radius` only that one is tested, and
    sampling stops as soon as the remaining samples cannot change the decision.
    """

    selection: int = option(100, ge=1)
    estimation: int = option(100_000, ge=1)
    bound: str = option("top", choices=("top", "top_two"))
    radius: float | None = option(None, ge=0)
    """The radius to decide, with as few samples as suffice; by default the largest that is proven."""

    def fewest_samples(self) -> tuple[str, int]:
        return "estimation", fewest_to_certify(self._share)

    def certify(self, about: About, label: int | None = None) -> Steps:
        if self.radius is not None:
            return (yield from self._decide(self.radius, about))
        top = int((yield Votes(SELECTION, 0, self.selection)).argmax())
        counts = yield Votes(ESTIMATION, 0, self.estimation)
        return self.proven(top, self._radius(counts, top, about.noise), self.selection + self.estimation, counts)

    def expect_possible(self, noise: Noise) -> None:
        if self.radius is not None:
            agreed = np.array([self.estimation, 0], dtype=np.int64)
            self.expect_reachable(self.radius, self._radius(agreed, 0, noise), noise)

    def _decide(self, radius: float, about: About) -> Steps:
        """Decide whether the whole estimation would certify this radius, from as few of its blocks as possible."""
        self.expect_possible(about.noise)
        top = int((yield Votes(SELECTION, 0, self.selection)).argmax())
        counts = np.zeros(about.classes, dtype=np.int64)
        drawn, worst, best = 0, -np.inf, np.inf
        while worst < radius <= best:
            more = min(self.estimation - drawn, about.block)
            counts += yield Votes(ESTIMATION, drawn, more)
            drawn += more
            left = self.estimation - drawn
            worst = self._radius(_with(counts, _runner_up(counts, top), left), top, about.noise)
            best = self._radius(_with(counts, top, left), top, about.noise)
        return self.proven(top if worst >= radius else ABSTAIN, radius, self.selection + drawn, counts)

    def possible_radii(
        self, counts: NDArray[np.int64], samples: int, prediction: int, noise: Noise
    ) -> tuple[float, ...] | None:
        drawn = int(counts.sum())
        self.expect_spent(samples, drawn, self.selection)
        if drawn > self.estimation or (self.radius is None and drawn != self.estimation):
            raise ValueError(f"the votes are {drawn}, expected {self.estimation}")
        left = self.estimation - drawn
        worst = self._radius(_with(counts, _runner_up(counts, prediction), left), prediction, noise)
        radius = worst if self.radius is None else self.radius
        return (float(radius),) if worst >= max(radius, 0.0) else ()

    @property
    def _share(self) -> float:
        return self.failure if self.bound == "top" else self.failure / 2

    def _radius(self, counts: NDArray[np.int64], top: int, noise: Noise) -> float:
        """Return the radius that the counts of all estimation samples certify; below zero it certifies nothing."""
        lower = binomial_lower(int(counts[top]), self.estimation, self._share)
        if self.bound == "top":
            return noise.radius(lower)
        # The true runner-up is one fixed class, and its count is at most the largest: no union bound over the classes.
        upper = binomial_upper(int(counts[_runner_up(counts, top)]), self.estimation, self._share)
        return noise.radius(lower, min(upper, 1 - lower) if lower > 0.5 else upper)


def _runner_up(counts: NDArray[np.int64], top: int) -> int:
    others = counts.copy()
    others[top] = -1
    return int(others.argmax())


def _with(counts: NDArray[np.int64], label: int, more: int) -> NDArray[np.int64]:
    added = counts.copy()
    added[label] += more
    return added

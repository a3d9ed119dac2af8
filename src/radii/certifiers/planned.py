"""A number of samples planned from a pilot, for nearly the full radius (Chen et al. 2022, on fresh samples)."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from radii.certifiers.base import About, Certifier, Steps
from radii.fields import option
from radii.smoothing.bounds import binomial_lower, binomial_upper, fewest_to_certify
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise.base import Noise
from radii.smoothing.questions import Votes
from radii.smoothing.sequential import looks_until

PILOT, ESTIMATION = 0, 1
"""The stages of the noise."""
PILOT_ERROR = 0.1
"""Error probability of each side of the pilot's interval: it affects radius and samples, never the guarantee."""
POINTS = 33


@dataclass(frozen=True, kw_only=True)
class Planned(Certifier):
    """Draws the fewest samples whose radius is expected within `tolerance` of what `most_samples` would give.

    The pilot is discarded: given it, the class and the number of samples are constants, and the bound on fresh samples
    has the full failure probability. It abstains after the pilot where not even `most_samples` are expected to certify.
    """

    tolerance: float = option(0.01, ge=0)
    """In the norm of the noise, pixels in [0, 1]"""
    pilot: int = option(200, ge=1)
    most_samples: int = option(100_000, ge=1)

    def fewest_samples(self) -> tuple[str, int]:
        return "most_samples", fewest_to_certify(self.failure)

    def certify(self, about: About, label: int | None = None) -> Steps:
        pilot = yield Votes(PILOT, 0, self.pilot)
        top = int(pilot.argmax())
        interval = (
            binomial_lower(int(pilot[top]), self.pilot, PILOT_ERROR),
            binomial_upper(int(pilot[top]), self.pilot, PILOT_ERROR),
        )
        samples = plan(about.noise, interval, self.tolerance, self.most_samples, self.failure)
        if samples == 0:
            return self.proven(ABSTAIN, 0.0, self.pilot, ())
        counts = yield Votes(ESTIMATION, 0, samples)
        radius = about.noise.radius(binomial_lower(int(counts[top]), samples, self.failure))
        return self.proven(top, radius, self.pilot + samples, counts)

    def possible_radii(
        self, counts: NDArray[np.int64], samples: int, prediction: int, noise: Noise
    ) -> tuple[float, ...] | None:
        drawn = int(counts.sum())
        self.expect_spent(samples, drawn, self.pilot)
        if drawn not in (0, *looks_until(self.most_samples)):
            raise ValueError(f"the votes are {drawn}, which no plan of at most {self.most_samples} asks for")
        radius = noise.radius(binomial_lower(int(counts[prediction]), drawn, self.failure)) if drawn else -1.0
        return (float(radius),) if radius >= 0 else ()


@cache
def plan(noise: Noise, interval: tuple[float, float], tolerance: float, most_samples: int, failure: float) -> int:
    """Return the fewest samples that lose at most `tolerance` of the radius, for every probability in an interval.

    Zero if not even `most_samples` are expected to certify any of them.
    """
    sizes = np.array(looks_until(most_samples))
    hits = np.linspace(*interval, POINTS)[:, None] * sizes
    radii = noise.radius(betaincinv(np.maximum(hits, 1e-9), sizes - hits + 1, failure))
    most = radii[:, -1:]
    enough = np.argmax(radii >= most - tolerance, axis=1)
    certifiable = most[:, 0] > 0
    return int(sizes[enough[certifiable].max()]) if certifiable.any() else 0

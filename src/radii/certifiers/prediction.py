"""The smoothed classifier's class without a radius: a two-sided test of the top two (Cohen et al. 2019, PREDICT)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radii.certifiers.base import About, Certifier, Steps
from radii.fields import option
from radii.smoothing.bounds import coin_p_value, fewest_to_predict
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise.base import Noise
from radii.smoothing.questions import Votes


@dataclass(frozen=True, kw_only=True)
class Prediction(Certifier):
    """Cohen's PREDICT: the class, wrong with probability at most `failure`, or an abstention; the radius is 0."""

    samples: int = option(1_000, ge=1)

    def fewest_samples(self) -> tuple[str, int]:
        return "samples", fewest_to_predict(self.failure)

    def certify(self, about: About, label: int | None = None) -> Steps:
        counts = yield Votes(0, 0, self.samples)
        return self.proven(self._decided(counts), 0.0, self.samples, counts)

    def possible_radii(
        self, counts: NDArray[np.int64], samples: int, prediction: int, noise: Noise
    ) -> tuple[float, ...] | None:
        self.expect_spent(samples, drawn := int(counts.sum()), 0)
        if drawn != self.samples:
            raise ValueError(f"the votes are {drawn}, expected {self.samples}")
        return (0.0,) if self._decided(counts) == prediction else ()

    def _decided(self, counts: NDArray[np.int64]) -> int:
        """Return the class whose lead over the runner-up is significant, or ABSTAIN."""
        runner_up, top = np.argsort(counts, kind="stable")[-2:]
        decided = coin_p_value(int(counts[top]), int(counts[top] + counts[runner_up])) <= self.failure
        return int(top) if decided else ABSTAIN

"""The smoothed classifier's class without a radius: a two-sided test of the top two (Cohen et al. 2019, PREDICT)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from radii.certifiers.base import Certifier, Voter
from radii.fields import option
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.bounds import coin_p_value, fewest_to_predict
from radii.smoothing.certificate import ABSTAIN, Certificate


@dataclass(frozen=True, kw_only=True)
class Prediction(Certifier):
    """Cohen's PREDICT: the class, wrong with probability at most `failure`, or an abstention; the radius is 0."""

    samples: int = option(1_000, ge=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_samples("samples", fewest_to_predict(self.failure))

    def certify(self, classifier: Voter, image: Any, noise: NoiseAddress, label: int | None = None) -> Certificate:
        counts = self.votes(classifier, image, self.samples, noise.at(0))
        runner_up, top = np.argsort(counts, kind="stable")[-2:]
        decided = coin_p_value(int(counts[top]), int(counts[top] + counts[runner_up])) <= self.failure
        return self.proven(int(top) if decided else ABSTAIN, 0.0, self.samples, counts)

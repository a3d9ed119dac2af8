"""As many samples as it takes to decide which of the given radii is certified: an exact group-sequential test."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from radii.certifiers.base import Certifier, Voter
from radii.fields import option
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.bounds import binomial_lower, fewest_to_certify
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import Noise
from radii.smoothing.sequential import SequentialTests, sequential_tests


@dataclass(frozen=True, kw_only=True)
class Sequential(Certifier):
    """Certifies the largest of `radii` that the samples prove, with the guarantee of `fixed` and far fewer samples.

    Where the label is known its probability is tested directly, and the answer is the label or an abstention; otherwise
    a pilot, discarded afterwards, picks the class.
    """

    radii: tuple[float, ...] = option((0.0,))
    """l2, pixels in [0, 1]; 0 asks for the class alone."""
    most_samples: int = option(100_000, ge=1)
    futility: float = option(0.002, ge=0, lt=0.5)
    """The chance, at every look, of giving up on a probability that the last look would accept; 0 never gives up."""
    pilot: int = option(64, ge=1)

    def __post_init__(self) -> None:
        if isinstance(self.radii, Iterable) and not isinstance(self.radii, str):
            object.__setattr__(self, "radii", tuple(self.radii))
        super().__post_init__()
        if not self.radii or min(self.radii) < 0:
            raise ValueError(f"certifier 'sequential': radii = {self.radii}, expected one or more numbers >= 0")
        object.__setattr__(self, "radii", tuple(sorted(set(map(float, self.radii)))))
        self.expect_samples("most_samples", fewest_to_certify(self.failure))

    def certify(self, classifier: Voter, image: Any, noise: NoiseAddress, label: int | None = None) -> Certificate:
        tests = self.tests(classifier.noise)
        spent = 0
        if label is None:
            label, spent = int(self.votes(classifier, image, self.pilot, noise.at(0)).argmax()), self.pilot
        elif not 0 <= label < classifier.classes:
            raise ValueError(f"label = {label}, expected a class from 0 to {classifier.classes - 1}")
        counts = np.zeros(classifier.classes, dtype=np.int64)
        crossed = np.zeros(len(self.radii), dtype=np.bool_)
        drawn = 0
        for look, samples in enumerate(tests.looks):
            counts += self.votes(classifier, image, samples - drawn, noise.at(1 + look))
            drawn = samples
            crossed, proven, stop = tests.update(look, counts[label], crossed)
            if stop:
                break
        certified = (label, self.radii[proven - 1]) if proven else (ABSTAIN, 0.0)
        return self.proven(*certified, spent + drawn, counts)

    def tests(self, noise: Noise) -> SequentialTests:
        """The tests of all radii; a radius that no number of hits can prove is a ValueError."""
        largest = noise.radius(binomial_lower(self.most_samples, self.most_samples, self.failure))
        self.expect_reachable(self.radii[-1], largest, noise)
        thresholds = tuple(noise.probability_for(radius) for radius in self.radii)
        return sequential_tests(thresholds, self.failure, self.most_samples, self.futility)

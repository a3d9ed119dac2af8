"""The largest of the given radii that is certified, with few samples: an exact group-sequential test."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radii.certifiers.base import About, Certifier, Steps, TimeUp
from radii.fields import option
from radii.smoothing.bounds import binomial_lower, fewest_to_certify
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise.base import Noise
from radii.smoothing.questions import Votes
from radii.smoothing.sequential import SequentialTests, sequential_tests

PILOT, FIRST_LOOK = 0, 1
"""The stages of the noise: every look has one of its own."""
MOST_PLANNED = 500_000_000
"""The most samples of all radii together: the boundaries of more would take minutes to compute."""


@dataclass(frozen=True, kw_only=True)
class Sequential(Certifier):
    """Certifies the largest of `radii` that the samples prove, with the guarantee of `fixed` and far fewer samples.

    Where the label is known its probability is tested directly, and the prediction is the label or an abstention;
    otherwise a pilot, discarded afterwards, selects the class.
    """

    radii: tuple[float, ...] = option((0.0,))
    """In the norm of the noise, pixels in [0, 1]; 0 certifies only the class."""
    most_samples: int = option(100_000, ge=1)
    futility: float = option(0.002, ge=0, lt=0.5)
    """The probability, per look, of giving up on an image that the last look would accept; 0 never gives up."""
    pilot: int = option(64, ge=1)

    def __post_init__(self) -> None:
        if isinstance(self.radii, Iterable) and not isinstance(self.radii, str):
            object.__setattr__(self, "radii", tuple(self.radii))
        super().__post_init__()
        if not self.radii or min(self.radii) < 0:
            raise ValueError(f"certifier 'sequential': radii = {self.radii}, expected one or more numbers >= 0")
        object.__setattr__(self, "radii", tuple(sorted(set(map(float, self.radii)))))
        if len(self.radii) * self.most_samples > MOST_PLANNED:
            raise ValueError(
                f"certifier 'sequential': {len(self.radii)} radii of {self.most_samples:,} samples are more than "
                f"{MOST_PLANNED:,} samples. Use fewer radii or smaller most_samples."
            )

    def fewest_samples(self) -> tuple[str, int]:
        return "most_samples", fewest_to_certify(self.failure)

    def certify(self, about: About, label: int | None = None) -> Steps:
        tests = self.tests(about.noise)
        spent = 0
        if label is None:
            label, spent = int((yield Votes(PILOT, 0, self.pilot)).argmax()), self.pilot
        elif not 0 <= label < about.classes:
            raise ValueError(f"label = {label}, expected a class from 0 to {about.classes - 1}")
        counts = np.zeros(about.classes, dtype=np.int64)
        crossed = np.zeros(len(self.radii), dtype=np.bool_)
        proven, drawn = np.zeros((), dtype=np.int64), 0
        for look, samples in enumerate(tests.looks):
            try:
                counts += yield Votes(FIRST_LOOK + look, 0, samples - drawn)
            except TimeUp:  # what was crossed stays proven: no boundary is crossed wrongly at any look
                break
            drawn = samples
            crossed, proven, stop = tests.update(look, counts[label], crossed)
            if stop:
                break
        certified = (label, self.radii[proven - 1]) if proven else (ABSTAIN, 0.0)
        return self.proven(*certified, spent + drawn, counts)

    def possible_radii(
        self, counts: NDArray[np.int64], samples: int, prediction: int, noise: Noise
    ) -> tuple[float, ...] | None:
        """Return the radii whose tests the last look crossed, or an earlier look with no more hits may have crossed."""
        tests, drawn = self.tests(noise), int(counts.sum())
        self.expect_spent(samples, drawn, 0 if samples == drawn else self.pilot)
        if drawn not in tests.looks:
            raise ValueError(f"the votes are {drawn}, where no look of at most {self.most_samples} is")
        last = tests.looks.index(drawn)
        hits = np.minimum(int(counts[prediction]), np.array(tests.looks[: last + 1]))[:, None]
        crossed = hits >= tests.accept[: last + 1]
        surely, maybe = (int(np.logical_and.accumulate(passed).sum()) for passed in (crossed[-1], crossed.any(0)))
        return self.radii[max(surely - 1, 0) : maybe]

    def reach(self, noise: Noise) -> float:
        """Return the largest radius that can be certified under a noise."""
        return noise.radius(binomial_lower(self.most_samples, self.most_samples, self.failure))

    def expect_possible(self, noise: Noise) -> None:
        self.expect_reachable(self.radii[-1], self.reach(noise), noise)

    def tests(self, noise: Noise) -> SequentialTests:
        """Return the tests of all radii; raise a ValueError for a radius that no number of hits can prove."""
        self.expect_possible(noise)
        thresholds = tuple(noise.probability_for(radius) for radius in self.radii)
        return sequential_tests(thresholds, self.failure, self.most_samples, self.futility)

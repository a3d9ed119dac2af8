"""The accuracy under attack of answers by one noisy pass each, from a few votes on every image of a sample."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radii.certifiers.base import About, Certifier, Steps
from radii.fields import option
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise.base import Noise
from radii.smoothing.one_pass import MOST_VOTES, PUBLISHED, After, Values, best_coefficients, is_below
from radii.smoothing.questions import Votes

STAGE = 0


@dataclass(frozen=True, kw_only=True)
class OnePass(Certifier):
    """Proves that one noisy pass answers at least a share of all pictures rightly, whatever change of length `radius`.

    The change must not depend on the noise of the request. All radii together are wrong with probability at most
    `failure`. Nothing is proven about one picture: its row holds votes and abstains.
    """

    failure: float = option(0.05, gt=0, lt=1)
    radii: tuple[float, ...] = option((0.25,))
    """In the norm of the noise, pixels in [0, 1]."""
    votes: int = option(20, ge=1, le=MOST_VOTES)
    """For each picture."""
    guess: tuple[float, ...] = option(())
    """Probabilities that labels may have, by default from published logs. A bad guess proves less, never too much."""

    training_images: int = option(0, ge=0, le=100_000)
    """Of a run: training pictures, or those held out of them, whose votes are the guess. They are counted first."""

    def __post_init__(self) -> None:
        for name in ("radii", "guess"):
            value = getattr(self, name)
            if isinstance(value, Iterable) and not isinstance(value, str):
                object.__setattr__(self, name, tuple(value))
        super().__post_init__()
        if not self.radii or min(self.radii) < 0:
            raise ValueError(f"certifier 'one_pass': radii = {self.radii}, expected one or more numbers >= 0")
        if any(not 0 <= probability <= 1 for probability in self.guess):
            raise ValueError(f"certifier 'one_pass': guess = {self.guess}, expected probabilities from 0 to 1")
        if self.guess and self.training_images:
            raise ValueError("certifier 'one_pass': guess and training_images are two guesses: leave out one")
        object.__setattr__(self, "radii", tuple(sorted(set(map(float, self.radii)))))
        object.__setattr__(self, "guess", tuple(map(float, self.guess)))

    def fewest_samples(self) -> tuple[str, int]:
        return "votes", 1

    def certify(self, about: About, label: int | None = None) -> Steps:
        counts = yield Votes(STAGE, 0, self.votes)
        return self.proven(ABSTAIN, 0.0, self.votes, counts)

    def possible_radii(
        self, counts: NDArray[np.int64], samples: int, prediction: int, noise: Noise
    ) -> tuple[float, ...] | None:
        if not int(counts.sum()) == samples == self.votes:
            raise ValueError(f"the votes are {int(counts.sum())} of {samples} samples, expected {self.votes}")
        return ()

    @property
    def share(self) -> float:
        """The failure probability of the bound at one radius."""
        return self.failure / len(self.radii)

    def polynomials(self, noise: Noise, images: int, guess: Sequence[float] = ()) -> dict[str, list[float]]:
        """Return the coefficients for every radius, which are fixed before any vote is seen."""
        guess = self.guess or guess or PUBLISHED
        return {
            repr(radius): best_coefficients(_after(noise, radius), self.votes, guess, images, self.share).tolist()
            for radius in self.radii
        }

    def is_proven(self, noise: Noise, radius: float, coefficients: Values) -> bool:
        """Return whether these coefficients bound the accuracy after a change of this length."""
        return len(coefficients) == self.votes + 1 and is_below(coefficients, _after(noise, radius))


def _after(noise: Noise, radius: float) -> After:
    def after(probability: Values) -> Values:
        return np.asarray(noise.probability_after(probability, radius), dtype=np.float64)

    return after

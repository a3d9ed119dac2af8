"""The contract of a certifier."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from radii.errors import ParameterError
from radii.fields import option, settings_of
from radii.plugins import Component
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import Noise


class Voter(Protocol):
    """What a certifier needs from a smoothed classifier."""

    @property
    def noise(self) -> Noise: ...

    @property
    def classes(self) -> int: ...

    @property
    def batch_size(self) -> int: ...

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]: ...

    def probabilities(
        self, image: Any, samples: int, noise: NoiseAddress, sharpness: float = 1.0
    ) -> Iterator[NDArray[np.float64]]: ...


@dataclass(frozen=True, kw_only=True)
class Certifier(Component, ABC):
    """A method of certification: its certificates are wrong with probability at most `failure`."""

    registry: ClassVar[str] = "certifier"

    failure: float = option(0.001, gt=0, lt=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting in settings_of(type(self)):  # 1 and 1.0 are one setting, whose certificates are one file
            value = getattr(self, setting.name)
            if float in (setting.hint, *get_args(setting.hint)) and isinstance(value, int):
                object.__setattr__(self, setting.name, float(value))
        field, fewest = self.fewest_samples()
        if (samples := getattr(self, field)) < fewest:
            raise ValueError(
                f"{field} = {samples} can never certify at failure {self.failure:g}, "
                f"even if all agree; the smallest that can is {fewest}"
            )

    @abstractmethod
    def fewest_samples(self) -> tuple[str, int]:
        """The field that states the number of samples, and the fewest that a prediction can need."""

    @abstractmethod
    def certify(self, classifier: Voter, image: Any, noise: NoiseAddress, label: int | None = None) -> Certificate:
        """Certify one image; `noise` is the address of its draws, `label` its true class where it is known."""

    def votes(self, classifier: Voter, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        """The votes of noisy copies, or a ParameterError unless each has cast one: [class]."""
        counts = classifier.votes(image, samples, noise)
        if counts.shape != (classifier.classes,) or counts.min() < 0 or counts.sum() != samples:
            got = f"{counts.sum()} votes {list(counts.shape)}"
            raise _miscounted(samples, got, f"{samples} votes [{classifier.classes}], none below 0")
        return counts

    def probabilities(
        self, classifier: Voter, image: Any, samples: int, noise: NoiseAddress, sharpness: float
    ) -> Iterator[NDArray[np.float64]]:
        """The class probabilities of noisy copies by blocks, or a ParameterError unless each has a row."""
        rows = 0
        for block in classifier.probabilities(image, samples, noise, sharpness):
            rows += len(block)
            if rows > samples or block.shape[1:] != (classifier.classes,):
                raise _miscounted(samples, f"a block {list(block.shape)}", f"[row, {classifier.classes}]")
            yield block
        if rows < samples:
            raise _miscounted(samples, f"{rows} rows", f"{samples}")

    def possible_radii(
        self, counts: NDArray[np.int64], samples: int, prediction: int, noise: Noise
    ) -> tuple[float, ...] | None:
        """The radii that these counts may have proven for a class; empty if none, None if counts do not determine it.

        Counts or samples that this certifier cannot have written are a ValueError.
        """
        return None

    def expect_spent(self, samples: int, drawn: int, before: int) -> None:
        """Raise a ValueError unless the samples are those that were counted and those drawn before."""
        if samples != drawn + before:
            raise ValueError(f"{drawn} votes and {before} samples before them are not the {samples} samples stated")

    def proven(self, prediction: int, radius: float, samples: int, counts: Iterable[int]) -> Certificate:
        """The certificate of this certifier; a radius below zero proves nothing."""
        counts = tuple(map(int, counts))
        if sum(counts) > samples:
            raise _miscounted(samples, f"{sum(counts)} votes", f"{samples} at most")
        if prediction == ABSTAIN or not radius >= 0:
            prediction, radius = ABSTAIN, 0.0
        return Certificate(prediction, float(radius), samples, counts, self)

    def expect_reachable(self, radius: float, largest: float, noise: Noise) -> None:
        """Raise a ValueError if a radius is above `largest`, the one certified when all samples agree."""
        if radius > largest:
            raise ValueError(
                f"radius {radius:g} can never be certified at failure {self.failure:g} under {noise}, "
                f"even if all samples agree; the largest that can is {math.floor(largest * 1e4) / 1e4:g}"
            )


def _miscounted(samples: int, found: str, expected: str) -> ParameterError:
    return ParameterError(
        f"the classifier gave {found} for {samples} samples, expected {expected}: it miscounts", "classifier"
    )

"""The contract of a certification procedure."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radii.fields import check, option
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import NoiseAddress


class Voter(Protocol):
    """What a procedure asks of a smoothed classifier."""

    @property
    def sigma(self) -> float: ...

    @property
    def classes(self) -> int: ...

    @property
    def batch_size(self) -> int: ...

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]: ...

    def probabilities(
        self, image: Any, samples: int, noise: NoiseAddress, sharpness: float = 1.0
    ) -> Iterator[NDArray[np.float64]]: ...


@dataclass(frozen=True, kw_only=True)
class Certifier(ABC):
    """A procedure whose certificate is wrong with probability at most `failure`."""

    failure: float = option(0.001, above=0, below=1)

    def __post_init__(self) -> None:
        check(self, f"certifier {self.name!r}")

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def certify(self, classifier: Voter, image: Any, noise: NoiseAddress, label: int | None = None) -> Certificate:
        """Certify one image; `noise` is the address of its draws, `label` its true class where it is known."""

    def proven(self, prediction: int, radius: float, samples: int, counts: Iterable[int]) -> Certificate:
        """The certificate of this procedure; a radius below zero proves nothing."""
        if prediction == ABSTAIN or not radius >= 0:
            prediction, radius = ABSTAIN, 0.0
        return Certificate(prediction, radius, samples, tuple(map(int, counts)), self)

    def expect_samples(self, field: str, fewest: int) -> None:
        """Raise a ValueError if a field states fewer samples than an answer can ever rest on."""
        if (samples := getattr(self, field)) < fewest:
            raise ValueError(
                f"{field} = {samples} can never certify at failure {self.failure:g}, "
                f"even if all agree; the smallest that can is {fewest}"
            )

    def expect_reachable(self, radius: float, largest: float, sigma: float) -> None:
        """Raise a ValueError if a radius is beyond the largest, which samples that all agree certify."""
        if radius > largest:
            raise ValueError(
                f"radius {radius:g} can never be certified at failure {self.failure:g} and sigma {sigma:g}, "
                f"even if all samples agree; the largest that can is {math.floor(largest * 1e4) / 1e4:g}"
            )

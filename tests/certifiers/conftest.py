from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.certifiers.base import Voter
from radii.engines import SmoothedClassifier
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Gaussian


class RandomVoter:
    """A voter with given class probabilities and no image; every call draws new votes."""

    noise = Gaussian(1.0)
    batch_size = 128

    def __init__(self, chances: Sequence[float], seed: int) -> None:
        self.chances = list(chances)
        self.classes = len(chances)
        self.rng = np.random.default_rng(seed)

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        return self.rng.multinomial(samples, self.chances)

    def probabilities(
        self,
        image: Any,
        samples: int,
        noise: NoiseAddress,
        sharpness: float = 1.0,
    ) -> Iterator[NDArray[np.float64]]:
        yield self.rng.multinomial(1, self.chances, samples).astype(float)


class Pixel(nn.Module):
    """Two classes of images of one pixel: above one half, and not."""

    def forward(self, images: Tensor) -> Tensor:
        above = images.flatten(1)[:, :1] - 0.5
        return torch.cat([above, -above], 1)


@pytest.fixture
def random_voter() -> Callable[..., Voter]:
    """Make a voter with given class probabilities: random_voter(0.7, 0.3, seed=1)."""
    return lambda *chances, seed=0: RandomVoter(chances, seed)


@pytest.fixture
def pixel() -> SmoothedClassifier:
    """A small real smoothed classifier: its exact radius for a pixel above one half is the pixel minus one half."""
    return SmoothedClassifier(Pixel(), sigma=0.25, classes=2)

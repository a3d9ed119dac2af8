"""Base classifiers and voters that a certificate must not be built on, and honest ones that must not be refused."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Gaussian

Fault = Callable[[Tensor, Tensor], Tensor]
"""What becomes of (logits, images)."""


class Miscounter:
    """A fair coin that gives `factor` votes or rows a sample."""

    noise = Gaussian(1.0)
    batch_size = 128
    classes = 2

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        total = max(round(self.factor * samples), 1)
        return np.array([total - total // 2, total // 2])

    def probabilities(
        self, image: Any, samples: int, noise: NoiseAddress, sharpness: float = 1.0
    ) -> Iterator[NDArray[np.float64]]:
        yield np.ones((round(self.factor * samples), 2)) / 2


class LastBits(nn.Module):
    """Class 0 where a small number is finer than any that is left when noise is added to one level in float32."""

    def forward(self, images: Tensor) -> Tensor:
        values = images.flatten(1).double()
        fine = ((values.abs() < 2.0**-9) & ((values * 2.0**32) % 1 != 0)).sum(1)
        return torch.stack([fine - 0.5, 0.5 - fine], 1).float()


class Base(nn.Module):
    """A small network, and a fault that its logits get."""

    def __init__(self, fault: Fault, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
        self.fault = fault

    def forward(self, images: Tensor) -> Tensor:
        return self.fault(self.layers(images), images)


def in_places(places: slice, by: float = 1.0) -> Fault:
    def fault(logits: Tensor, _: Tensor) -> Tensor:
        changed = logits.clone()
        changed[places] = by * changed[places].flip(1)
        return changed

    return fault


def far_only(logits: Tensor, images: Tensor) -> Tensor:
    """The block's mean, where noise is strong."""
    far = (images - 0.5).flatten(1).norm(dim=1, keepdim=True) > 2
    return torch.where(far, logits + 0.1 * logits.mean(0), logits)


BY_COMPANY: dict[str, Fault] = {
    "mean over the block": lambda z, _: z - z.mean(0),
    "a thousandth of the block's mean": lambda z, _: z + 1e-3 * z.mean(0),
    "range of the block": lambda z, _: (z * (127 / z.abs().max())).round() / (127 / z.abs().max()),
    "softmax over the wrong axis": lambda z, _: z.softmax(0),
    "rank within the block": lambda z, _: z.argsort(0).argsort(0).float(),
    "the row before": lambda z, _: z + 0.1 * z.roll(1, 0),
    "statistics of the block": lambda z, _: F.batch_norm(z, None, None, training=True),
    "where noise is strong": far_only,
}
BY_PLACE: dict[str, Fault] = {
    "the last row": in_places(slice(-1, None)),
    "the first row": in_places(slice(0, 1)),
    "odd places": in_places(slice(1, None, 2)),
    "every tenth place": in_places(slice(3, None, 10)),
    "the second half": in_places(slice(64, None)),
    "a thousandth in one place": in_places(slice(77, 78), 1e-3),
    "the number of the row": lambda z, _: z + 1e-3 * torch.arange(len(z))[:, None] * torch.tensor([1.0, 0.0, -1.0]),
}
BY_LENGTH: dict[str, Fault] = {
    "more than 64 rows": lambda z, _: z.flip(1) if len(z) > 64 else z,
    "one row": lambda z, _: z.flip(1) if len(z) == 1 else z,
    "the very length of a last block": lambda z, _: z.flip(1) if len(z) == 37 else z,
    "the share of a whole block": lambda z, _: z * len(z) / 128,
}
HONEST: dict[str, Fault] = {
    "plain": lambda z, _: z,
    "constant": lambda z, _: torch.zeros_like(z),
    "double": lambda z, _: z.double(),
    "bfloat16": lambda z, _: z.bfloat16(),
    "integers": lambda z, _: (z > 0).long(),
    "log softmax": lambda z, _: z.log_softmax(1),
    "masked": lambda z, _: z.clone().index_fill_(1, torch.tensor(2), -1e9),
    "offset": lambda z, _: 1e6 + z,
}

"""Normalisation as a model's first layer: noise is added before it, so sigma and radii are in pixel units."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Normalisation(NamedTuple):
    """Per-channel constants; empty ones leave the pixels as they are."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


NONE = Normalisation()
# These are not CIFAR-10's standard deviations, but every published checkpoint was trained with them.
CIFAR10 = Normalisation((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
CIFAR100 = Normalisation((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Normalise(nn.Module):
    """Subtracts the mean and divides by the standard deviation of each channel; adds nothing to a state dict."""

    mean: Tensor
    std: Tensor

    def __init__(self, constants: Normalisation) -> None:
        super().__init__()
        for name, values in constants._asdict().items():
            self.register_buffer(name, torch.tensor(values).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


class Normalised(nn.Sequential):
    """A model that takes pixels in [0, 1]: its own mean and standard deviation a channel are its first layer.

    >>> import torch, radii
    >>> model = radii.Normalised(torch.nn.Flatten(), mean=(0.5,), std=(0.25,))
    >>> model(torch.ones(1, 1, 1, 2)).tolist()
    [[2.0, 2.0]]
    """

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        constants = Normalisation(tuple(map(float, mean)), tuple(map(float, std)))
        finite = all(map(math.isfinite, (*constants.mean, *constants.std)))
        if not constants.mean or len(constants.mean) != len(constants.std) or not finite or not min(constants.std) > 0:
            raise ValueError(f"mean = {mean}, std = {std}, expected one number each per channel, std > 0")
        first = Normalise(constants)
        beside = next((tensor.device for tensor in (*model.parameters(), *model.buffers())), None)
        super().__init__(first if beside is None else first.to(beside), model)


def layer(constants: Normalisation) -> nn.Module:
    """Make the first layer of a model; an identity keeps the state dict's keys where there are no constants."""
    return Normalise(constants) if constants.mean else nn.Identity()

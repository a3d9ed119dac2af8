"""Gradient ascent on images with the model held still."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Projection = Callable[[Tensor], Tensor]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for every module, each restored to its own mode on exit."""
    modes = [(module, module.training) for module in model.modules() if module.training]
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Eval mode and no parameter gradients, restored on exit."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with evaluating(model):
        for parameter in trainable:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in trainable:
                parameter.requires_grad_(True)


def ascent(
    start: Tensor, gain: Callable[[Tensor], Tensor], *, steps: int, step_size: float, project: Projection
) -> Iterator[Tensor]:
    """The successive points of normalised gradient ascent from `start`, `start` not among them.

    `gain` maps points to one number whose gradient is taken; every image moves by `step_size` along its own
    direction and is then projected.
    """
    point = start.detach()
    for _ in range(steps):
        with torch.enable_grad():
            leaf = point.requires_grad_()
            (gradient,) = torch.autograd.grad(gain(leaf), leaf)
        point = project(point.detach() + step_size * unit(gradient))
        yield point


def unit(gradient: Tensor) -> Tensor:
    """Each image's direction; a zero gradient stays zero."""
    return gradient / (norms(gradient) + 1e-8)


def norms(images: Tensor) -> Tensor:
    """The l2 norm of each image, shaped to broadcast over it."""
    return images.flatten(1).norm(dim=1).view(-1, *(1 for _ in images.shape[1:]))


def l2_ball(center: Tensor, radius: float) -> Projection:
    """Projection to the l2 ball around each image of `center`."""

    def project(points: Tensor) -> Tensor:
        offset = points - center
        return center + offset * (radius / norms(offset).clamp(min=1e-12)).clamp(max=1.0)

    return project

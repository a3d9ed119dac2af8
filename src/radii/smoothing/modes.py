"""Context managers that change the mode of a model and restore it."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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

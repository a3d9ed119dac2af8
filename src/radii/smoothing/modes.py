"""Context managers that change the mode of a model and restore it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

_held: dict[nn.Module, int] = {}
"""Modules that were in training mode, with how many now hold them in eval mode. A mode belongs to the module, not
to a caller: with a count for each caller, the first of two threads to finish would end the eval mode of the other."""
_lock = threading.Lock()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for every module, each restored to its own mode when the last of several threads is done with it."""
    with _lock:
        modules = [module for module in model.modules() if module.training or module in _held]
        for module in modules:
            _held[module] = _held.get(module, 0) + 1
            module.training = False
    try:
        yield
    finally:
        with _lock:
            for module in modules:
                _release(module)


def _release(module: nn.Module) -> None:
    _held[module] -= 1
    if not _held[module]:
        del _held[module]
        module.training = True


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

"""Whether a module is still the one that was prepared: its tensors, structure, hooks and plain attributes."""

from collections.abc import Hashable

import torch
from torch import Tensor, nn

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The type that shows the bits of a number, by its size in bytes."""
PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size)


def state_of(model: nn.Module) -> Hashable:
    """Equal as long as nothing has changed in a model that a prepared copy of it would miss.

    Reading every weight once is a small part of one forward pass. Objects that a module keeps beside tensors, numbers
    and text are compared by identity: what changes inside them is not seen.
    """
    return tuple((id(module), _state(module)) for module in model.modules())


def _state(module: nn.Module) -> Hashable:
    return tuple((name, _mark(value)) for name, value in vars(module).items() if name != "training")


def _mark(value: object) -> Hashable:
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Tensor):
        return _bits(value)
    if isinstance(value, dict):
        return tuple((str(key), _mark(each)) for key, each in value.items()) if value else ()
    if isinstance(value, (list, tuple)):
        return tuple(map(_mark, value))
    return id(value)


def _bits(tensor: Tensor) -> Hashable:
    """The tensor's identity, how often torch changed it, and the sum of its bits: `data` and numpy change it unseen."""
    version = None if tensor.is_inference() else tensor._version
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
        return id(tensor), version
    plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    bits = plain if plain.dtype is torch.bool else plain.view(INTEGERS[plain.element_size()])
    return id(tensor), version, int(bits.sum())

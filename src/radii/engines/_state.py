"""Detect changes of a model since it was prepared: in tensors, structure, hooks and plain attributes."""

import zlib
from collections.abc import Hashable

import torch
from torch import Tensor, nn

PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size)


def state_of(model: nn.Module) -> Hashable:
    """Return a value that stays equal until something changes that a prepared copy of the model would miss.

    On a CPU, reading every weight once is a small part of one forward pass. Other devices would have to be waited for:
    there, torch's count of changes is compared, and a change in place of a tensor's `data` is not seen. Objects that a
    module keeps beside tensors, numbers and text are compared by identity: what changes inside them is not seen.
    """
    return tuple(
        (id(module), tuple((name, _mark(value)) for name, value in vars(module).items() if name != "training"))
        for module in model.modules()
    )


def _mark(value: object) -> Hashable:
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Tensor):
        return _bits(value)
    if isinstance(value, dict):
        return tuple((str(key), _mark(item)) for key, item in value.items()) if value else ()
    if isinstance(value, (list, tuple)):
        return tuple(map(_mark, value))
    return id(value)


def _bits(tensor: Tensor) -> Hashable:
    """Return the tensor's identity, how often torch changed it, and a checksum: `data` and numpy change it unseen.

    A sum of the bits would miss rows that change places, and signs that do.
    """
    version = None if tensor.is_inference() else tensor._version
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
        return id(tensor), version
    if tensor.device.type != "cpu":
        return id(tensor), version, tuple(tensor.shape), tensor.data_ptr()
    plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    content = plain.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return id(tensor), version, tuple(tensor.shape), zlib.crc32(content.data)

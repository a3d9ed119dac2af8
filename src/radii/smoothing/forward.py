"""Run a model: in eval mode, in the fastest memory format, and on many noisy copies at once."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)

_PIECE = 256
"""Inputs per piece, so that a layer's feature maps stay in the CPU's cache until the next layer reads them."""

_held: dict[nn.Module, int] = {}
"""Modules that were in training mode, with the number of callers that hold them in eval mode. The mode belongs to the
module: with one count per caller, the first of two threads to finish would end the eval mode of the other."""
_lock = threading.Lock()


def logits_of(model: nn.Module, copies: Tensor) -> Tensor:
    """Compute the logits of all copies in one forward pass: [copy, batch, class]; 16 bits become float32."""
    logits = _forward(model, copies.flatten(0, 1))
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    return logits.reshape(*copies.shape[:2], logits.shape[-1])


def _forward(model: nn.Module, inputs: Tensor) -> Tensor:
    """Run one forward pass; on a CPU, many inputs of a batch-independent model are processed piece by piece."""
    if inputs.device.type == "cpu" and len(inputs) >= 4 * _PIECE and is_batch_independent(model):
        return torch.cat([model(piece) for piece in inputs.split(_PIECE)])
    logits: Tensor = model(inputs)
    return logits


def is_batch_independent(model: nn.Module) -> bool:
    """Return whether an image in a forward pass cannot affect the outputs of the others or the model's state.

    A user-defined layer may use batch statistics, so it counts as dependent.
    """
    return all(
        type(module).__module__.startswith(("torch.nn.modules.", "radii.")) and not _uses_batch_statistics(module)
        for module in model.modules()
    )


def _uses_batch_statistics(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._NormBase) and (module.training or module.running_mean is None)


def channels_last(model: Model) -> Model:
    """Convert a model to the memory format that is fastest for convolutions on a CPU, and in 16 bits on a GPU."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def runs_ahead(device: torch.device) -> bool:
    """Return whether a device queues passes, and copies to it, while this process goes on: an NVIDIA GPU."""
    return device.type == "cuda"


def tf32() -> dict[str, bool]:
    """Return whether matrix products and convolutions on a GPU round their inputs to 10 bits (TF32)."""
    backends: Any = torch.backends
    try:
        return {"matmul": bool(backends.cuda.matmul.allow_tf32), "conv": bool(backends.cudnn.allow_tf32)}
    except RuntimeError:  # the newer setting was used, which these do not express
        matmul, conv = backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision
        return {"matmul": matmul == "tf32", "conv": conv == "tf32"}


@contextmanager
def without_tf32() -> Iterator[None]:
    """Compute in full float32 on a GPU, so that results which should be equal differ by little."""
    if not torch.cuda.is_available() or not any(tf32().values()):
        yield
        return
    with _multiplying_in("ieee"):
        yield


def with_tf32() -> AbstractContextManager[None]:
    """Round the inputs of matrix products and convolutions on a GPU to 10 bits, for speed."""
    return _multiplying_in("tf32")


@contextmanager
def _multiplying_in(kind: str) -> Iterator[None]:
    """Set how float32 is multiplied on a GPU; restore it on exit."""
    backends: Any = torch.backends
    places = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    before = [place.fp32_precision for place in places]
    for place in places:
        place.fp32_precision = kind
    try:
        yield
    finally:
        for place, precision in zip(places, before, strict=True):
            place.fp32_precision = precision


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set every module to eval mode; each gets its own mode back when the last of several threads is done with it."""
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
    """Set a model to eval mode without parameter gradients; both are restored on exit."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with evaluating(model):
        for parameter in trainable:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in trainable:
                parameter.requires_grad_(True)

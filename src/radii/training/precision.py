"""Set the precision of training's forward and backward passes, and a GPU's settings for them."""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch.amp.grad_scaler import GradScaler

from radii.errors import ParameterError, RunWarning
from radii.smoothing.forward import with_tf32

SIXTEEN_BITS = {"bfloat16": torch.bfloat16, "float16": torch.float16}
UNITS = {"bfloat16": "bf16", "float16": "fp16"}
"""What torch's name of a CPU capability for each precision contains."""


def check_precision(precision: str, device: torch.device) -> None:
    """Raise a ParameterError if the device lacks the precision; warn if a CPU has to emulate it."""
    if precision == "tf32" and device.type != "cuda":
        raise ParameterError(
            f"training.precision = 'tf32' needs an NVIDIA GPU, and the device is {device.type!r}. State 'float32'."
        )
    if precision in SIXTEEN_BITS and device.type == "cpu" and not _has_units(precision):
        warnings.warn(
            f"training.precision = {precision!r} on a CPU without {precision} units takes about twice as long as "
            "'float32'. State 'float32' in a new run.",
            RunWarning,
            stacklevel=3,
        )


def _has_units(precision: str) -> bool:
    """Return whether the CPU has units for a precision of 16 bits."""
    capabilities = torch.cpu.get_capabilities()
    return any(present and UNITS[precision] in name for name, present in capabilities.items())


def autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which forward passes run in the precision if it has 16 bits."""
    if precision not in SIXTEEN_BITS:
        return nullcontext()
    # With a cache, a weight that is first cast under no_grad would get no gradient later.
    return torch.autocast(device.type, SIXTEEN_BITS[precision], cache_enabled=False)


def make_scaler(precision: str, device: torch.device) -> GradScaler:
    """Create the scaler that keeps gradients inside float16's range; it does nothing for other precisions."""
    return GradScaler(device.type, enabled=precision == "float16")


@contextmanager
def tuned(precision: str, device: torch.device) -> Iterator[None]:
    """On a GPU, let cuDNN choose its fastest kernels by trial and set TF32 if stated; restore both on exit."""
    if device.type != "cuda":
        yield
        return
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        with with_tf32() if precision == "tf32" else nullcontext():
            yield
    finally:
        torch.backends.cudnn.benchmark = before

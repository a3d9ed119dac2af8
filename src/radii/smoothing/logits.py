"""Checks of the logits that a classifier returned for a block of images, and how far rounding may move them."""

import torch
from torch import Tensor

from radii.errors import ParameterError

ROUNDINGS = 256
"""Rounding errors that may add up in a logit. The built-in models show up to 20 when a row moves within its block, and
up to 40 when BatchNorm is folded."""
MOST = 0.05
"""The largest share of a logit that is accepted as rounding at any precision."""

SINGLE = {"mps"}
"""Kinds of devices without numbers of double precision."""

NOT_REAL = (torch.bool, torch.complex32, torch.complex64, torch.complex128)


def check_logits(output: object, rows: int, classes: int | None = None) -> Tensor:
    """Return the logits of a block, or raise a ParameterError unless they are one finite row for each image."""
    logits = check_rows(output, rows, classes)
    expect_finite(bool(torch.isfinite(logits).all()))
    return logits


def expect_finite(finite: bool) -> None:
    """Raise a ParameterError unless all logits are finite."""
    if not finite:
        raise ParameterError(
            "the base classifier returned a logit that is not finite: nothing can be certified", "base"
        )


def check_rows(output: object, rows: int, classes: int | None = None) -> Tensor:
    """Return the logits of a block, or raise a ParameterError unless they are one tensor with a row for each image.

    An output that names its logits, as Hugging Face's do, is unwrapped.
    """
    output = unwrapped(output)
    if not isinstance(output, Tensor):
        raise ParameterError(
            f"the base classifier returned a {type(output).__name__}, expected one tensor of logits [batch, class]: "
            "wrap it in a module that returns the logits alone",
            "base",
        )
    if output.ndim != 2 or output.shape[0] != rows or classes not in (None, output.shape[1]):
        raise ParameterError(_of_another_shape(list(output.shape), rows, classes), "base")
    if output.dtype in NOT_REAL:
        raise ParameterError(f"the base classifier returned numbers of {output.dtype}, expected real logits", "base")
    return output


def unwrapped(output: object) -> object:
    """Return the attribute `logits` of an output that has one, or the output itself."""
    return output if isinstance(output, Tensor) else getattr(output, "logits", output)


def _of_another_shape(shape: list[int], rows: int, classes: int | None) -> str:
    expected = f"[{rows}, {'class' if classes is None else classes}]"
    step = "return one row of logits for each image"
    if len(shape) == 2 and shape[0] == rows:
        step = "state the number of its classes"
    return f"the base classifier returned {shape} for a block of {rows}, expected {expected}: {step}"


def rounding(logits: Tensor, block: Tensor | None = None, factor: float = 1.0) -> Tensor:
    """Return how far each logit may move by rounding alone, where sums are taken in another order: [batch, class].

    `factor` is how much more rounding there is than in one forward pass. On a GPU, TF32 has to be off.

    Relative to the logit itself or to the median one of the `block` that it is from, whichever is larger: a small
    logit is a sum of larger numbers, and an outlier (a class masked by -1e9) must not raise the tolerance of others.
    """
    sizes = double(logits).abs()
    largest = double(logits if block is None else block).abs().amax(0)
    usual = largest.sort().values[logits.shape[1] // 2]
    return min(factor * ROUNDINGS * _spacing(logits), MOST) * sizes.clamp(min=usual)


def double(logits: Tensor) -> Tensor:
    """Return logits in double precision on the CPU: some devices have no such numbers."""
    return logits.detach().cpu().to(torch.float64)


def _spacing(logits: Tensor) -> float:
    """Return the relative spacing of the numbers that logits were computed with: float32, or coarser."""
    coarsest = torch.finfo(torch.float32).eps
    return max(coarsest, torch.finfo(logits.dtype).eps) if logits.is_floating_point() else coarsest


def same_up_to_rounding(logits: Tensor, reference: Tensor, factor: float = 1.0, block: Tensor | None = None) -> bool:
    """Return whether two forwards of the same rows differ by no more than `factor` times what rounding explains.

    `block` has the logits of the whole block where these are some of its rows. A change of the class in more than one
    row in a hundred, a single row aside, is never rounding.
    """
    differs = (double(logits) - double(reference)).abs() > rounding(reference, block, factor)
    changed = int((logits.argmax(1) != reference.argmax(1)).sum())
    return not bool(differs.any()) and changed <= max(1, len(logits) // 100)

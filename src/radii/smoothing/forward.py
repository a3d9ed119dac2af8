"""Forward passes of many noisy copies, and models whose output for one image does not depend on the others."""

import torch
from torch import Tensor, nn

_PIECE = 256
"""Inputs per piece, so that a layer's feature maps stay in the CPU's cache until the next layer reads them."""


def logits_of(model: nn.Module, copies: Tensor) -> Tensor:
    """Logits of all copies from one forward pass: [copy, batch, class]; in float32 where the pass is in bfloat16."""
    logits = _forward(model, copies.flatten(0, 1))
    if logits.dtype == torch.bfloat16:
        logits = logits.float()
    return logits.reshape(*copies.shape[:2], logits.shape[-1])


def _forward(model: nn.Module, inputs: Tensor) -> Tensor:
    """One forward pass; on a CPU, many inputs of a batch-independent model are processed piece by piece."""
    if inputs.device.type == "cpu" and len(inputs) >= 4 * _PIECE and is_batch_independent(model):
        return torch.cat([model(piece) for piece in inputs.split(_PIECE)])
    logits: Tensor = model(inputs)
    return logits


def is_batch_independent(model: nn.Module) -> bool:
    """Whether an image in a forward pass cannot affect the outputs of the others or the model's state.

    A user-defined layer may use batch statistics, so it counts as dependent.
    """
    return all(
        type(module).__module__.startswith(("torch.nn.modules.", "radii.")) and not _uses_batch_statistics(module)
        for module in model.modules()
    )


def _uses_batch_statistics(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._NormBase) and (module.training or module.running_mean is None)

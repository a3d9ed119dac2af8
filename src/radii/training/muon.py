"""Muon: momentum whose update of a weight matrix has singular values near one (Jordan et al. 2024).

`torch.optim.Muon` accepts only matrices. This optimizer flattens kernels to matrices, and trains by SGD the first and
the last layer, biases and normalisation.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""The odd polynomial of degree five that moves singular values towards one."""
ITERATIONS = 5
SGD_FACTOR = 5.0
"""The learning rate of SGD as a multiple of Muon's."""


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum for the matrices inside a network, and SGD with Nesterov momentum for the rest.

    Weight decay is decoupled for matrices. `dtype` is the precision in which updates are made orthogonal.
    """

    def __init__(
        self, model: nn.Module, *, lr: float, momentum: float, weight_decay: float, dtype: torch.dtype = torch.float32
    ) -> None:
        matrices = hidden_matrices(model)
        orthogonal = {id(weight) for weight in matrices}
        rest = [weight for weight in model.parameters() if weight.requires_grad and id(weight) not in orthogonal]
        groups: Iterable[dict[str, Any]] = (
            {"params": matrices, "orthogonal": True, "rate_factor": 1.0},
            {"params": rest, "orthogonal": False, "rate_factor": SGD_FACTOR, "lr": SGD_FACTOR * lr},
        )
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__([group for group in groups if group["params"]], defaults)
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        for group in self.param_groups:
            update = self._update_matrix if group["orthogonal"] else _update_plainly
            for weight in group["params"]:
                if weight.grad is not None:
                    state = self.state[weight]
                    if not state:
                        state["momentum_buffer"] = torch.zeros_like(weight.grad)
                    update(weight, weight.grad, state["momentum_buffer"], group)

    def _update_matrix(self, weight: Tensor, gradient: Tensor, buffer: Tensor, group: dict[str, Any]) -> None:
        buffer.mul_(group["momentum"]).add_(gradient)
        direction = gradient.add(buffer, alpha=group["momentum"]).flatten(1)
        scale = max(1.0, direction.shape[0] / direction.shape[1]) ** 0.5
        update = orthogonalised(direction.to(self.dtype)).to(weight.dtype).view(weight.shape)
        weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-scale * group["lr"])


def _update_plainly(weight: Tensor, gradient: Tensor, buffer: Tensor, group: dict[str, Any]) -> None:
    gradient = gradient.add(weight, alpha=group["weight_decay"])
    buffer.mul_(group["momentum"]).add_(gradient)
    weight.add_(gradient.add(buffer, alpha=group["momentum"]), alpha=-group["lr"])


def hidden_matrices(model: nn.Module) -> list[Tensor]:
    """Return the trained weights of linear layers and convolutions, without the first and the last."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear | nn.modules.conv._ConvNd)]
    weights = {id(layer.weight): layer.weight for layer in layers[1:-1] if layer.weight.requires_grad}
    return list(weights.values())  # each once, where layers share it


def orthogonalised(matrix: Tensor) -> Tensor:
    """Return U f(S) V' for the matrix U S V' of norm 1, where f applies the polynomial five times.

    f(S) is between 0.7 and 1.2, except for singular values below about 1/1000 of the norm, which stay smaller.
    """
    first, third, fifth = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    wide = matrix.T if tall else matrix
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        square = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(square, square, square, beta=third, alpha=fifth), wide, beta=first)
    return wide.T if tall else wide

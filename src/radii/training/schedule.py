"""The optimizer of a run and its learning rate."""

import math
from typing import Any

import torch
from torch import nn

from radii.runs.recipe import Training


def make_optimizer(training: Training, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that a recipe states, over the parameters that take gradients."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    common: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay, "fused": True}
    if training.optimizer == "adamw":
        return torch.optim.AdamW(trained, betas=(training.momentum, 0.999), **common)
    return torch.optim.SGD(trained, momentum=training.momentum, nesterov=training.nesterov, **common)


def learning_rate(training: Training, epoch: int, through: float) -> float:
    """The learning rate after the fraction `through` of `epoch`."""
    passed = epoch + through
    warmup = min(1.0, passed / training.warmup_epochs) if training.warmup_epochs else 1.0
    return training.learning_rate * warmup * _factor(training, epoch, passed / training.epochs)


def _factor(training: Training, epoch: int, share: float) -> float:
    match training.schedule:
        case "step":
            return training.decay ** (epoch // training.decay_every)
        case "multi_step":
            return training.decay ** sum(epoch >= at for at in training.decay_at)
        case "cosine":
            return (1 + math.cos(math.pi * share)) / 2
        case _:
            return _one_cycle(share)


def _one_cycle(share: float) -> float:
    """Rises from 1/25 to 1 over the first 30 % of the run, then falls to 0, both along a half cosine."""
    peak = 0.3
    rising = share < peak
    part = share / peak if rising else (share - peak) / (1 - peak)
    wave = (1 - math.cos(math.pi * part)) / 2
    return 0.04 + 0.96 * wave if rising else 1 - wave

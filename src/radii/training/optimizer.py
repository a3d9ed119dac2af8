"""Make the optimizer of a recipe, and compute its learning rate."""

import math
from typing import Any

import torch
from torch import nn

from radii.runs.recipe import Training
from radii.training.muon import Muon


def make_optimizer(training: Training, model: nn.Module) -> torch.optim.Optimizer:
    """Create the recipe's optimizer for the parameters that take gradients."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    common: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
    if training.optimizer == "muon":
        dtype = torch.bfloat16 if training.precision == "bfloat16" else torch.float32
        return Muon(model, momentum=training.momentum, dtype=dtype, **common)
    if training.optimizer == "adamw":
        return torch.optim.AdamW(trained, betas=(training.momentum, 0.999), fused=True, **common)
    return torch.optim.SGD(trained, momentum=training.momentum, nesterov=training.nesterov, fused=True, **common)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group, multiplied by the group's own factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)


def learning_rate(training: Training, epoch: int, progress: float) -> float:
    """Return the learning rate after the fraction `progress` of an epoch."""
    passed = epoch + progress
    warmup = min(1.0, passed / training.warmup_epochs) if training.warmup_epochs else 1.0
    return training.learning_rate * warmup * _factor(training, epoch, min(1.0, passed / training.epochs))


def _factor(training: Training, epoch: int, share: float) -> float:
    """Return the schedule's factor in `epoch`, after the fraction `share` of all epochs."""
    match training.schedule:
        case "step":
            return training.decay ** (epoch // training.decay_every)
        case "multi_step":
            return training.decay ** sum(epoch >= milestone for milestone in training.decay_at)
        case "cosine":
            return (1 + math.cos(math.pi * share)) / 2
        case _:
            return _one_cycle(share)


def _one_cycle(share: float) -> float:
    """Rise from 1/25 to 1 over the first 30 % of the training, then fall to 0, both along a half cosine."""
    peak = 0.3
    rising = share < peak
    phase = share / peak if rising else (share - peak) / (1 - peak)
    wave = (1 - math.cos(math.pi * phase)) / 2
    return 0.04 + 0.96 * wave if rising else 1 - wave

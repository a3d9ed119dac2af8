"""One training step: the loss of a batch, its gradients over all processes, and the optimizer's update."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.objectives import Objective, Step
from radii.training.batches import LocalBatch
from radii.training.batchnorm import SynchronisedBatchNorm
from radii.training.ddp import ALONE, World


class NotFiniteError(ValueError):
    """The loss is infinite or not a number."""


class StepResult(NamedTuple):
    """Loss and terms of a step over all ranks."""

    loss: float
    terms: dict[str, float]
    """Summed over the images of the step."""


class Loss(nn.Module):
    """A model and its objective as one module whose forward pass is the loss.

    DDP averages gradients after one forward and one backward pass. An objective may call the model more often than
    that, also to attack it, but it calls this module once.
    """

    def __init__(self, objective: Objective, model: nn.Module, precision: str = "float32") -> None:
        super().__init__()
        self.objective = objective
        self.model = model
        self.precision = precision
        self.unused: list[str] | None = None
        """Names of the parameters that got no gradient in the first step."""
        self.norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]

    def forward(self, local: LocalBatch, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted loss, and each term summed over the images."""
        for norm in self.norms:
            if isinstance(norm, SynchronisedBatchNorm):
                norm.counted = local.weight > 0
        with self._autocast(local.batch.images.device):
            terms = self.objective.terms(self.model, local.batch, step)
        loss = torch.stack([term.mean() for term in terms.values()]).sum()
        return local.weight * loss, {name: term.detach().sum() for name, term in terms.items()}

    def _autocast(self, device: torch.device) -> AbstractContextManager[None]:
        if self.precision != "bfloat16":
            return nullcontext()
        # Without a cache: a weight that is first cast under no_grad would get no gradient later.
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)

    def expect_same_parameters(self) -> None:
        """Raise a ParameterError if other parameters have gradients than in the first step."""
        unused = [
            name for name, weight in self.model.named_parameters() if weight.requires_grad and weight.grad is None
        ]
        self.unused = unused if self.unused is None else self.unused
        if unused != self.unused:
            raise ParameterError(
                "the set of parameters that get gradients changes between steps, so several processes cannot train "
                "this model: train it in one process"
            )

    def local_statistics(self) -> list[Tensor]:
        """Return the running statistics of BatchNorm that this rank has computed from its own images."""
        local = [norm for norm in self.norms if norm.training and not isinstance(norm, SynchronisedBatchNorm)]
        statistics = [statistic for norm in local for statistic in (norm.running_mean, norm.running_var)]
        return [statistic for statistic in statistics if statistic is not None]


def gradient_step(
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    local: LocalBatch,
    step: Step,
    *,
    number: int = 0,
    world: World = ALONE,
) -> StepResult:
    """Update the model once with the gradients of all ranks; raise a NotFiniteError before that if the loss is bad.

    `loss` is a Loss that `world` has wrapped; `number` counts the steps of the epoch, for the error.
    """
    optimizer.zero_grad()
    with world.peer_errors():
        value, sums = loss(local, step)
        value.backward()
    if world.size == 1:
        # Read together: each reading waits for the device.
        total, *totals = torch.stack([value.detach(), *sums.values()]).cpu().tolist()
        result = StepResult(total, dict(zip(sums, totals, strict=True)))
    else:
        inner = loss.module
        assert isinstance(inner, Loss)
        inner.expect_same_parameters()
        result = _reduce(inner, value, sums, local.weight, world)
    if not math.isfinite(result.loss):
        bad = next((name for name, total in result.terms.items() if not math.isfinite(total)), "their sum")
        raise NotFiniteError(
            f"the loss is {result.loss} at epoch {step.epoch}, step {number}, in the term {bad!r}; "
            "the last good checkpoint is kept: lower training.learning_rate and start another run"
        )
    optimizer.step()
    return result


def _reduce(loss: Loss, value: Tensor, sums: dict[str, Tensor], weight: float, world: World) -> StepResult:
    """Sum loss and terms over the ranks and average their running statistics, in one exchange."""
    value_read, *terms_read = torch.stack([value.detach(), *sums.values()]).cpu().tolist()
    numbers = [value_read / world.size, *terms_read]
    own = torch.tensor(numbers if weight else [0.0] * len(numbers), dtype=torch.float64)
    statistics = loss.local_statistics()
    shares = torch.cat(statistics).cpu().double().mul_(weight / world.size) if statistics else own.new_empty(0)
    total = world.sum(torch.cat([own, shares]))
    averages = total[len(own) :].split([len(statistic) for statistic in statistics])
    for statistic, average in zip(statistics, averages, strict=True):
        statistic.copy_(average)
    reduced, *terms = total[: len(own)].tolist()
    return StepResult(reduced, dict(zip(sums, terms, strict=True)))

"""One step of training: a model and its objective as one module, in one process or in several."""

import math
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.objectives import Batch, Objective, Step
from radii.training.batchnorm import SynchronisedBatchNorm
from radii.training.distributed import ALONE, World
from radii.training.interrupts import HELD, Interrupts


class NotFiniteError(ValueError):
    """The loss is infinite or not a number; the last good checkpoint is kept."""


class Part(NamedTuple):
    """A rank's part of a step."""

    batch: Batch
    weight: float = 1.0
    """Of its mean loss, such that the average over the ranks is the mean over the images of the step."""


class Done(NamedTuple):
    """What a step gave, the same on every rank."""

    loss: float
    terms: dict[str, float]
    """Summed over the images of the step."""
    signal: int | None = None
    """What one of the ranks holds back, for all to stop at this step."""


class Loss(nn.Module):
    """A model and its objective as one module whose forward is the loss.

    However often an objective calls the model, also to attack it, this has one forward and one backward pass, which is
    what averages gradients over processes.
    """

    def __init__(self, objective: Objective, model: nn.Module, precision: str = "float32") -> None:
        super().__init__()
        self.objective = objective
        self.model = model
        self.precision = precision
        self.unused: list[str] | None = None
        self.norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]

    def forward(self, part: Part, step: Step) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted loss, and each term summed over the images."""
        for norm in self.norms:
            if isinstance(norm, SynchronisedBatchNorm):
                norm.counted = part.weight > 0
        with self._precision(part.batch.images.device):
            terms = self.objective.terms(self.model, part.batch, step)
        loss = torch.stack([term.mean() for term in terms.values()]).sum()
        return part.weight * loss, {name: term.detach().sum() for name, term in terms.items()}

    def _precision(self, device: torch.device) -> AbstractContextManager[None]:
        # Without a cache: a weight that was first cast where no gradients are taken would get none later.
        return torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16", cache_enabled=False)

    def expect_same_weights(self) -> None:
        """Refuse a step that uses other weights than the first one, before the optimiser uses its gradients."""
        unused = [
            name for name, weight in self.model.named_parameters() if weight.requires_grad and weight.grad is None
        ]
        self.unused = unused if self.unused is None else self.unused
        if unused != self.unused:
            raise ParameterError("this model uses other weights in one step than in another: train it in one process")

    def local_statistics(self) -> list[Tensor]:
        """The running statistics that this rank has computed from its own images."""
        own = [norm for norm in self.norms if norm.training and not isinstance(norm, SynchronisedBatchNorm)]
        found = [statistic for norm in own for statistic in (norm.running_mean, norm.running_var)]
        return [statistic for statistic in found if statistic is not None]


def gradient_step(
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    part: Part,
    step: Step,
    where: str = "",
    world: World = ALONE,
    interrupts: Interrupts | None = None,
) -> Done:
    """One step of the optimiser with the gradients of all ranks; a NotFiniteError if the loss is not finite.

    `loss` is a Loss, as `world` has wrapped it.
    """
    optimizer.zero_grad()
    with world.noticing_peers():
        value, sums = loss(part, step)
        value.backward()
    if world.size > 1:
        _inner(loss).expect_same_weights()
    done = _shared(loss, value, sums, part, world, interrupts)
    if not math.isfinite(done.loss):
        bad = next((name for name, total in done.terms.items() if not math.isfinite(total)), "their sum")
        raise NotFiniteError(
            f"the loss is {done.loss} at epoch {step.epoch}, {where}, in the term {bad!r}; "
            "the last good checkpoint is kept: lower training.learning_rate and start another run"
        )
    optimizer.step()
    return done


def _shared(
    loss: nn.Module,
    value: Tensor,
    sums: dict[str, Tensor],
    part: Part,
    world: World,
    interrupts: Interrupts | None,
) -> Done:
    """The loss and terms of all ranks, in one exchange with their running statistics and the signals they hold."""
    if world.size == 1:
        terms = {name: total.item() for name, total in sums.items()}
        return Done(value.item(), terms, interrupts.pending if interrupts else None)
    share = part.weight / world.size
    statistics = _inner(loss).local_statistics()
    numbers = [share and value.item() / world.size, *(bool(share) * total.item() for total in sums.values())]
    flags = _flags(interrupts)
    own = torch.tensor([*numbers, *flags], dtype=torch.float64)
    flat = [share * statistic.double().cpu() for statistic in statistics]
    total = world.sum(torch.cat([own, *flat]))
    for statistic, averaged in zip(statistics, total[len(own) :].split([len(each) for each in flat]), strict=True):
        statistic.copy_(averaged)
    found = total[: len(own)].tolist()
    terms = dict(zip(sums, found[1 : len(numbers)], strict=True))
    return Done(found[0], terms, _flagged(found[len(numbers) :]))


def agreed(interrupts: Interrupts, world: World) -> int | None:
    """The signal that one of the ranks holds back."""
    return _flagged(world.sum(torch.tensor(_flags(interrupts))).tolist())


def _flags(interrupts: Interrupts | None) -> list[float]:
    """1 for the signal that is held back here; their sums over the ranks tell all of it."""
    return [float(interrupts is not None and number == interrupts.pending) for number in HELD]


def _flagged(sums: list[float]) -> int | None:
    return next((number for number, count in zip(HELD, sums, strict=True) if count), None)


def _inner(loss: nn.Module) -> Loss:
    inner = getattr(loss, "module", loss)
    assert isinstance(inner, Loss)
    return inner

"""Make one training step: the loss of a batch, its gradients over all processes, and the optimizer's update."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from radii.errors import ParameterError
from radii.objectives import Objective, Step
from radii.smoothing.forward import runs_ahead
from radii.training.batches import LocalBatch
from radii.training.batchnorm import SYNCHRONISED, SynchronisedBatchNorm
from radii.training.ddp import ALONE, World
from radii.training.precision import autocast

STATISTICS = ("running_mean", "running_var")
KEPT = "the last good checkpoint is kept: lower training.learning_rate and start another run"


class NotFiniteError(ValueError):
    """The loss or a weight is infinite or not a number."""


class StepResult(NamedTuple):
    """Loss and terms of a step over all ranks."""

    loss: float
    terms: dict[str, float]
    """Summed over the images of the step."""
    shared: tuple[float, ...] = ()
    """Further numbers of the ranks, summed over them."""


class Loss(nn.Module):
    """A model and its objective as one module whose forward pass returns the loss.

    DDP averages gradients after one forward and one backward pass of its module. An objective may call the model
    several times, for example to attack it, but this module runs once a step. `compiled` runs the model by
    torch.compile.
    """

    def __init__(
        self, objective: Objective, model: nn.Module, precision: str = "float32", *, compiled: bool = False
    ) -> None:
        super().__init__()
        if compiled:
            model.compile()  # in place, so that the names of its weights stay
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
        with autocast(self.precision, local.batch.images.device):
            terms = self.objective.terms(self.model, local.batch, step)
        loss = torch.stack([term.mean() for term in terms.values()]).sum()
        return local.weight * loss, {name: term.detach().sum() for name, term in terms.items()}

    def expect_same_parameters(self) -> None:
        """Raise a ParameterError unless the same parameters have gradients as in the first step."""
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
        local = [norm for norm in self.norms if norm.training and not isinstance(norm, SYNCHRONISED)]
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
    scaler: GradScaler | None = None,
    share: Callable[[], Sequence[float]] = tuple,
) -> StepResult:
    """Update the model once with the gradients of all ranks; raise a NotFiniteError if the loss is not finite.

    The loss is read after the update was launched, so that a step waits for a GPU only once. After the error the
    weights may not be finite either and must not be saved (`expect_finite_weights`). `loss` is a Loss that `world` has
    wrapped; `number` is the step's number in the epoch, for the error. `share` returns numbers of this rank that are
    summed over the ranks together with the loss.
    """
    optimizer.zero_grad()
    with world.peer_errors():
        value, sums = loss(local, step)
        (value if scaler is None else scaler.scale(value)).backward()
    numbers, shared = torch.stack([value.detach(), *sums.values()]), list(share())
    if world.size > 1:
        inner = loss.module
        assert isinstance(inner, Loss)
        inner.expect_same_parameters()
        numbers = _reduce(inner, numbers, shared, local.weight, world)
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    total, *others = numbers.cpu().tolist()
    result = StepResult(total, dict(zip(sums, others, strict=False)), tuple(others[len(sums) :] or shared))
    if not math.isfinite(result.loss):
        bad = next((name for name, total in result.terms.items() if not math.isfinite(total)), "their sum")
        raise NotFiniteError(
            f"the loss is {result.loss} at epoch {step.epoch}, step {number}, in the term {bad!r}; {KEPT}"
        )
    return result


def expect_finite_weights(model: nn.Module, epoch: int, step: int) -> None:
    """Raise a NotFiniteError unless all weights and running statistics are finite after a step.

    A finite loss may have gradients that are not finite; only the loss of the next step would show it.
    """
    statistics = ((name, value) for name, value in model.named_buffers() if name.endswith(STATISTICS))
    tensors = dict([*model.named_parameters(), *statistics])  # other buffers, such as masks, may be infinite
    finite = torch.stack([tensor.isfinite().all() for tensor in tensors.values()]).cpu().tolist()
    if bad := next((name for name, good in zip(tensors, finite, strict=True) if not good), None):
        raise NotFiniteError(f"the weight {bad!r} is not finite after epoch {epoch}, step {step}; {KEPT}")


def _reduce(loss: Loss, numbers: Tensor, shared: Sequence[float], weight: float, world: World) -> Tensor:
    """Sum loss, terms and shared numbers over the ranks and average their running statistics, in one exchange."""
    own = numbers.double()
    own[0] /= world.size
    if not weight:
        own = torch.zeros_like(own)
    others = torch.tensor(shared, dtype=own.dtype).to(own.device, non_blocking=runs_ahead(own.device))
    own = torch.cat([own, others])
    statistics = loss.local_statistics()
    shares = [weight / world.size * statistic.double() for statistic in statistics]
    total = world.sum(torch.cat([own, *shares]))
    averages = total[len(own) :].split([len(share) for share in shares])
    for statistic, average in zip(statistics, averages, strict=True):
        statistic.copy_(average)
    return total[: len(own)]

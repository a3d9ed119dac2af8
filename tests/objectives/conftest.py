from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from radii.objectives import Batch, Objective, Step

SEED = 7


@pytest.fixture
def plain() -> nn.Module:
    """A classifier of 4 x 4 images in three classes: smooth, in float64, without batch statistics."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model


@pytest.fixture
def normed() -> nn.Module:
    """A small classifier with BatchNorm."""
    torch.manual_seed(4)
    layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Softplus(), nn.Flatten(), nn.Linear(12, 3)]
    return nn.Sequential(*layers).double()


@pytest.fixture
def batch(plain: nn.Module) -> Batch:
    """Eight images; `plain` classifies six of them correctly without noise."""
    rng = torch.Generator().manual_seed(5)
    images = torch.rand((8, 1, 4, 4), generator=rng, dtype=torch.float64)
    # Some pixels at 0 and 1, so that clipping matters, and some between, so that rounding matters.
    images[::2] = ((images[::2] - 0.5) * 3 + 0.5).clamp(0, 1)
    labels = plain(images).argmax(1)
    labels[:2] = (labels[:2] + 1) % 3
    return Batch(images, labels, torch.randperm(20, generator=rng)[:8])


class Forward(NamedTuple):
    """The mode and the input of one forward pass."""

    training: bool
    images: Tensor


RecordForwards = Callable[[nn.Module], list[Forward]]
SameStep = Callable[[Objective, nn.Module, Batch, int, Callable[[torch.Generator], Tensor]], None]


@pytest.fixture
def record_forwards() -> RecordForwards:
    """Start to record the forward passes of a model."""

    def start(model: nn.Module) -> list[Forward]:
        seen: list[Forward] = []

        def record(module: nn.Module, inputs: tuple[Tensor]) -> None:
            seen.append(Forward(module.training, inputs[0].detach().clone()))

        model.register_forward_pre_hook(record)
        return seen

    return start


@pytest.fixture
def same_step() -> SameStep:
    """Loss, gradient and random draws of an objective equal those of a recomputation from the formula."""

    def compare(
        objective: Objective,
        model: nn.Module,
        batch: Batch,
        epoch: int,
        formula: Callable[[torch.Generator], Tensor],
    ) -> None:
        used, expected_use = (torch.Generator().manual_seed(SEED) for _ in range(2))
        terms = objective.terms(model, batch, Step(epoch, used))
        loss = torch.stack([term.mean() for term in terms.values()]).sum()
        expected = formula(expected_use)
        torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-12)
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients, references = (torch.autograd.grad(value, parameters) for value in (loss, expected))
        scale = max(float(gradient.abs().max()) for gradient in references)
        for gradient, reference in zip(gradients, references, strict=True):
            torch.testing.assert_close(gradient, reference, rtol=1e-9, atol=1e-10 * scale)
        assert torch.equal(used.get_state(), expected_use.get_state())

    return compare

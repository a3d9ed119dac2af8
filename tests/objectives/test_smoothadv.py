import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii.objectives import Batch, Step
from radii.objectives.gaussian import Gaussian
from radii.objectives.smoothadv import SmoothAdv

SIGMA = 0.3


def draw(copies: int, rng: torch.Generator) -> Tensor:
    return SIGMA * torch.randn((copies, 8, 1, 4, 4), generator=rng, dtype=torch.float64)


def soft_loss(model: nn.Module, image: Tensor, label: Tensor, noises: list[Tensor]) -> Tensor:
    mean = sum(model((image + noise)[None])[0].softmax(0)[label] for noise in noises) / len(noises)
    return -torch.log(torch.as_tensor(mean))


def uphill(model: nn.Module, image: Tensor, delta: Tensor, label: Tensor, noises: list[Tensor]) -> Tensor:
    leaf = delta.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(soft_loss(model, image + leaf, label, noises), leaf)
    return torch.div(gradient, torch.linalg.vector_norm(gradient))


def pgd(model: nn.Module, image: Tensor, label: Tensor, noises: list[Tensor], steps: int, radius: float) -> Tensor:
    delta = torch.zeros_like(image)
    for _ in range(steps):
        delta = delta + 2 * radius / steps * uphill(model, image, delta, label, noises)
        delta = torch.minimum(torch.maximum(image + delta, torch.tensor(0.0)), torch.tensor(1.0)) - image
        if delta.norm() > radius:
            delta = delta * (radius / delta.norm())
    return image + delta


def ddn(model: nn.Module, image: Tensor, label: Tensor, noises: list[Tensor], steps: int, radius: float) -> Tensor:
    delta, best = torch.zeros_like(image), torch.zeros_like(image)
    norm, worst = radius, float(torch.stack([image, 1 - image]).amax(0).norm())
    best_norm = worst
    for number in range(steps):
        votes = Counter(int(model((image + delta + noise)[None]).argmax()) for noise in noises)
        winner = min(vote for vote, count in votes.items() if count == max(votes.values()))
        fooled = winner != int(label)
        if fooled and float(delta.norm()) < best_norm:
            best, best_norm = delta.clone(), float(delta.norm())
        rate = 0.01 + 0.99 * (1 + math.cos(math.pi * (number + 1) / steps)) / 2
        delta = delta + rate * uphill(model, image, delta, label, noises)
        norm = min(norm * (0.95 if fooled else 1.05), worst)
        delta = delta / delta.norm() * norm
        delta = torch.round((image + delta) * 255) / 255 - image
        delta = (image + delta).clamp(0, 1) - image
    if best.norm() > radius:
        best = best * (radius / best.norm())
    return image + torch.round(best * 255) / 255


@pytest.mark.parametrize(("attack", "function"), [("pgd", pgd), ("ddn", ddn)])
@pytest.mark.parametrize(("copies", "epoch", "kept"), [(1, 9, 1), (3, 9, 3), (3, 2, 3), (3, 2, 1)])
def test_equals_the_formula(
    attack: str, function: Any, copies: int, epoch: int, kept: int, plain: nn.Module, batch: Batch, same_step: Any
) -> None:
    moved: list[float] = []

    def formula(rng: torch.Generator) -> Tensor:
        noise = draw(copies, rng)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            noises = list(noise[:, number])
            attacked = function(plain, image, label, noises, 5, 0.8 * min(1.0, (epoch + 1) / 5))
            moved.append(float((attacked - image).norm()))
            for one in noises[:kept]:
                logits = plain((attacked + one)[None])[0]
                total = total + logits.logsumexp(0) - logits[label]
        return total / (8 * kept)

    fields: dict[str, Any] = {"copies": copies, "attack": attack, "steps": 5, "radius": 0.8, "warmup_epochs": 5}
    objective = SmoothAdv(sigma=SIGMA, update_on="all" if kept == copies else "first", **fields)
    same_step(objective, plain, batch, epoch, formula)
    assert max(moved) > 0.3
    if attack == "ddn":
        assert min(moved) == 0, "an image that is misclassified as it is stays as it is"


@pytest.mark.parametrize("attack", ["pgd", "ddn"])
def test_zero_radius_equals_gaussian_training(attack: str, plain: nn.Module, batch: Batch) -> None:
    step = Step(20, torch.Generator().manual_seed(1))
    attacked = SmoothAdv(sigma=SIGMA, copies=3, radius=0.0, attack=attack).terms(plain, batch, step)
    step = Step(20, torch.Generator().manual_seed(1))
    gaussian = Gaussian(sigma=SIGMA, copies=3).terms(plain, batch, step)
    assert torch.equal(attacked["cross_entropy"], gaussian["cross_entropy"])


def test_radius_warms_up(plain: nn.Module, batch: Batch, record_forwards: Any) -> None:
    reached = {}
    for epoch in (0, 4, 9, 50):
        seen = record_forwards(plain)
        SmoothAdv(sigma=SIGMA, copies=2).terms(plain, batch, Step(epoch, torch.Generator().manual_seed(1)))
        noise = draw(2, torch.Generator().manual_seed(1))
        offset = seen[-1].images.unflatten(0, (2, 8)) - noise - batch.images
        reached[epoch] = float(offset[0].flatten(1).norm(dim=1).max())
    assert reached == pytest.approx({0: 0.1, 4: 0.5, 9: 1.0, 50: 1.0})


def test_attacks_run_in_eval_mode_and_training_is_one_forward(
    normed: nn.Module, batch: Batch, record_forwards: Any
) -> None:
    seen = record_forwards(normed)
    SmoothAdv(sigma=SIGMA, copies=2, steps=3).terms(normed, batch, Step(9, torch.Generator()))
    assert [forward.training for forward in seen] == [False, False, False, True]


def test_zero_gradient_steps_along_fresh_noise(batch: Batch, record_forwards: Any) -> None:
    constant = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    with torch.no_grad():
        next(constant[1].parameters()).zero_()
    seen = record_forwards(constant)
    objective = SmoothAdv(sigma=SIGMA, copies=2, steps=1, radius=9.0, warmup_epochs=0)
    objective.terms(constant, batch, Step(0, torch.Generator().manual_seed(1)))
    rng = torch.Generator().manual_seed(1)
    noise = draw(2, rng)
    direction = torch.randn(batch.images.shape, generator=rng, dtype=torch.float64)
    expected = (batch.images + 18.0 * direction).clamp(0, 1) + noise
    torch.testing.assert_close(seen[-1].images, expected.flatten(0, 1))

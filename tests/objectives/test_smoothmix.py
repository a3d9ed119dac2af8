import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii.objectives import Batch, Step
from radii.objectives.gaussian import Gaussian
from radii.objectives.smoothmix import SmoothMix

SIGMA = 0.3


def adversaries(
    model: nn.Module, image: Tensor, label: Tensor, noises: list[Tensor], steps: int, step_size: float
) -> list[Tensor]:
    path = [image]
    for _ in range(steps):
        leaf = path[-1].clone().requires_grad_()
        mean = torch.stack([model((leaf + noise)[None])[0].softmax(0) for noise in noises]).mean(0)
        (gradient,) = torch.autograd.grad(-torch.log(mean[label]), leaf)
        path.append((path[-1] + step_size * gradient / (gradient.norm() + 1e-8)).clamp(0, 1))
    return path


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize(("mix_step", "steps"), [(0, 3), (1, 3), (1, 1), (0, 1)])
@pytest.mark.parametrize("epoch", [1, 30])
def test_equals_the_formula(
    copies: int, mix_step: int, steps: int, epoch: int, plain: nn.Module, batch: Batch, same_step: Any
) -> None:
    mixed = []

    def formula(rng: torch.Generator) -> Tensor:
        noise = SIGMA * torch.randn((copies, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        shares = torch.rand(8, generator=rng, dtype=torch.float64) * 0.5
        warm = min(1.0, (epoch + 1) / 5)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            noises, share = list(noise[:, number]), float(shares[number])
            path = adversaries(plain, image, label, noises, steps, 0.6)
            near = path[1] if mix_step == 1 and steps > 1 else image
            if (near - image).norm() > warm * 0.6 * mix_step:
                near = image + (near - image) * warm * 0.6 * mix_step / (near - image).norm()
            predictions = [plain((near + one)[None])[0].softmax(0) for one in noises]
            mean = torch.stack(predictions).mean(0)
            target = (1 - share) * mean + share / 3
            middle = (1 - share) * near + share * path[-1]
            for clean, one in zip(predictions, noises, strict=True):
                total = total - torch.log(clean[label]) / copies
                if int(mean.argmax()) == int(label):
                    mixed.append(number)
                    logits = plain((middle + one)[None])[0].log_softmax(0)
                    distance = sum(target[c] * (torch.log(target[c]) - logits[c]) for c in range(3))
                    total = total + 2.0 * warm * distance / copies
        return total / 8

    objective = SmoothMix(
        sigma=SIGMA,
        copies=copies,
        steps=steps,
        step_size=0.6,
        weight=2.0,
        mix_step=mix_step,
        warmup_epochs=5,
    )
    same_step(objective, plain, batch, epoch, formula)
    assert 0 < len(mixed) < 8 * copies


def step(epoch: int = 20) -> Step:
    return Step(epoch, torch.Generator().manual_seed(1))


def test_zero_weight_equals_gaussian_training(plain: nn.Module, batch: Batch) -> None:
    terms = SmoothMix(sigma=SIGMA, weight=0.0).terms(plain, batch, step())
    gaussian = Gaussian(sigma=SIGMA, copies=2).terms(plain, batch, step())
    torch.testing.assert_close(sum(terms.values()), gaussian["cross_entropy"])


def test_images_are_forwarded_before_the_mixture(normed: nn.Module, batch: Batch, record_forwards: Any) -> None:
    fresh = copy.deepcopy(normed)
    seen = record_forwards(normed)
    SmoothMix(sigma=SIGMA, copies=2, steps=3).terms(normed, batch, step())
    assert [forward.training for forward in seen] == [False, False, False, True, True]
    rng = torch.Generator().manual_seed(1)
    noise = SIGMA * torch.randn((2, *batch.images.shape), generator=rng, dtype=torch.float64)
    shares = torch.rand(8, generator=rng, dtype=torch.float64).view(8, 1, 1, 1) / 2
    torch.testing.assert_close(seen[3].images, (batch.images + noise).flatten(0, 1))
    offset = seen[4].images.unflatten(0, (2, 8)) - noise - batch.images
    torch.testing.assert_close(offset[0], offset[1])
    assert (offset[0] / shares + batch.images).min() > -1e-9, (
        "the mixture is between the image and one with pixels in [0, 1]"
    )
    assert (offset[0] / shares + batch.images).max() < 1 + 1e-9
    for forward in seen[3:]:
        fresh(forward.images)
    assert torch.equal(normed[1].running_mean, fresh[1].running_mean)  # type: ignore[index]

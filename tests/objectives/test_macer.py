from typing import Any

import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

from radii.objectives import Batch, Step
from radii.objectives.macer import Macer

SIGMA = 0.3


def probabilities(model: nn.Module, image: Tensor, noises: Tensor, sharpness: float) -> Tensor:
    predictions = [(sharpness * model((image + noise)[None])[0]).softmax(0) for noise in noises]
    return torch.stack(predictions).mean(0)


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("margin", [8.0, 2.0])
def test_equals_the_formula(margin: float, everywhere: bool, plain: nn.Module, batch: Batch, same_step: Any) -> None:
    counts = []

    def formula(rng: torch.Generator) -> Tensor:
        noise = SIGMA * torch.randn((5, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            sharp = probabilities(plain, image, noise[:, number], 4.0)
            soft = sharp if everywhere else probabilities(plain, image, noise[:, number], 1.0)
            total = total - torch.log(soft[label] + 1e-10)
            rivals = [sharp[c] for c in range(3) if c != int(label)]
            rival = max(rivals, key=Tensor.item)
            gap = norm.ppf(sharp[label].item()) - norm.ppf(rival.item())
            if 0 <= gap <= margin:
                counts.append(gap)
                difference = torch.special.ndtri(sharp[label]) - torch.special.ndtri(rival)
                total = total + 3.0 * SIGMA / 2 * (margin - difference)
        return total / 8

    objective = Macer(
        sigma=SIGMA,
        copies=5,
        weight=3.0,
        margin=margin,
        sharpness=4.0,
        sharpen_classification=everywhere,
    )
    same_step(objective, plain, batch, 0, formula)
    assert 0 < len(counts) < 8, "some images count, some do not"


def loss_of(objective: Macer, model: nn.Module, batch: Batch, epoch: int = 0) -> dict[str, Tensor]:
    return dict(objective.terms(model, batch, Step(epoch, torch.Generator().manual_seed(1))))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinite_radii_are_left_out_of_the_graph(dtype: torch.dtype, plain: nn.Module, batch: Batch) -> None:
    with torch.no_grad():
        plain[3].weight.mul_(100)  # type: ignore[index]
    plain.to(dtype)
    batch = batch._replace(images=batch.images.to(dtype))
    terms = loss_of(Macer(sigma=1e-3), plain, batch)
    assert terms["robustness"].isfinite().all()
    assert (terms["robustness"] == 0).any()
    gradients = torch.autograd.grad(sum(terms.values()).sum(), list(plain.parameters()))  # type: ignore[union-attr]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_robustness_is_zero_when_no_image_qualifies(plain: nn.Module, batch: Batch) -> None:
    wrong = batch._replace(labels=(plain(batch.images).argmax(1) + 1) % 3)
    terms = loss_of(Macer(sigma=1e-3), plain, wrong)
    assert terms["robustness"].tolist() == [0.0] * 8
    gradients = torch.autograd.grad(sum(terms.values()).sum(), list(plain.parameters()))  # type: ignore[union-attr]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_weight_starts_at_the_stated_epoch(plain: nn.Module, batch: Batch) -> None:
    deferred = Macer(sigma=SIGMA, start_epoch=3)
    assert not loss_of(deferred, plain, batch, epoch=2)["robustness"].any()
    started, always = (loss_of(objective, plain, batch, epoch=3) for objective in (deferred, Macer(sigma=SIGMA)))
    assert always["robustness"].any()
    assert torch.equal(started["robustness"], always["robustness"])


def test_one_copy_with_zero_weight_equals_gaussian_training(plain: nn.Module, batch: Batch) -> None:
    terms = loss_of(Macer(sigma=SIGMA, copies=1, weight=0.0), plain, batch)
    noise = torch.randn((8, 1, 4, 4), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gaussian = nn.functional.cross_entropy(plain(batch.images + SIGMA * noise), batch.labels, reduction="none")
    torch.testing.assert_close(sum(terms.values()), gaussian, rtol=0, atol=1e-7)

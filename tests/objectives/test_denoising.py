from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.models.denoised import Denoised
from radii.objectives import Batch, Step
from radii.objectives.denoising import Denoising


@pytest.fixture
def denoised(plain: nn.Module) -> Denoised:
    """`plain` behind a smooth denoiser."""
    torch.manual_seed(6)
    return Denoised(nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.Tanh()).double(), plain)


def step() -> Step:
    return Step(0, torch.Generator().manual_seed(1))


def test_equals_the_formula(denoised: Denoised, batch: Batch, same_step: Any) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        noise = 0.4 * torch.randn((8, 1, 4, 4), generator=rng, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for image, one in zip(batch.images, noise, strict=True):
            cleaned = denoised.denoiser((image + one)[None])[0]
            logits = denoised.classifier(cleaned[None])[0]
            label = int(denoised.classifier(image[None]).argmax())
            total = total + ((cleaned - image) ** 2).sum() / 16 + 0.7 * (logits.logsumexp(0) - logits[label])
        return total / 8

    same_step(Denoising(sigma=0.4, stability=0.7), denoised, batch, 0, formula)


def test_labels_are_not_used(denoised: Denoised, batch: Batch) -> None:
    objective = Denoising(sigma=0.4, stability=1.0)
    others = batch._replace(labels=(batch.labels + 1) % 3)
    first, second = (objective.terms(denoised, images, step()) for images in (batch, others))
    assert all(torch.equal(first[key], second[key]) for key in first)


class BlackBox(nn.Module):
    """A classifier that can only be asked for logits, and counts how often it is."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.asked = inner, 0

    def forward(self, images: Tensor) -> Tensor:
        self.asked += 1
        logits: Tensor = self.inner(images.detach())
        return logits.detach()


def test_zero_stability_never_runs_the_classifier(plain: nn.Module, batch: Batch) -> None:
    model = Denoised(nn.Conv2d(1, 1, 3, padding=1).double(), BlackBox(plain))
    (error,) = Denoising(sigma=0.4, stability=0.0).terms(model, batch, step()).values()
    error.mean().backward()
    assert model.classifier.asked == 0
    assert all(parameter.grad is not None for parameter in model.denoiser.parameters())


def test_stability_of_a_classifier_without_gradients_is_refused(plain: nn.Module, batch: Batch) -> None:
    model = Denoised(nn.Conv2d(1, 1, 3, padding=1).double(), BlackBox(plain))
    with pytest.raises(ParameterError, match="gives no gradients, expected stability = 0"):
        Denoising(sigma=0.4).terms(model, batch, step())


def test_a_model_without_denoiser_is_refused(plain: nn.Module, batch: Batch) -> None:
    with pytest.raises(ParameterError, match="trains the denoiser of a model, which this model lacks"):
        Denoising(sigma=0.4).terms(plain, batch, step())


def test_classifier_is_unchanged_in_train_mode(normed: nn.Module, batch: Batch) -> None:
    model = Denoised(nn.Conv2d(1, 1, 3, padding=1).double(), normed)
    normed.train().requires_grad_(True)
    before = {key: value.clone() for key, value in normed.state_dict().items()}
    terms = Denoising(sigma=0.4, stability=1.0).terms(model, batch, step())
    torch.stack([term.mean() for term in terms.values()]).sum().backward()
    assert all(torch.equal(value, before[key]) for key, value in normed.state_dict().items())
    assert all(parameter.grad is None for parameter in normed.parameters())
    assert all(module.training for module in normed.modules())


def test_the_classifier_runs_from_the_stated_share_of_the_training_on(plain: nn.Module, batch: Batch) -> None:
    model = Denoised(nn.Conv2d(1, 1, 3, padding=1).double(), BlackBox(plain))
    objective = Denoising(sigma=0.4, stability=0.5, stability_start=0.6)
    early = objective.terms(model, batch, step()._replace(progress=0.59))
    assert model.classifier.asked == 0
    assert torch.equal(early["stability"], torch.zeros(8, dtype=torch.float64))
    with torch.no_grad():
        late = objective.terms(model, batch, step()._replace(progress=0.6))
        always = Denoising(sigma=0.4, stability=0.5).terms(model, batch, step())
    assert torch.equal(late["stability"], always["stability"])

"""Denoised smoothing: train a denoiser in front of a classifier that stays as it is (Salman et al. 2020)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms
from radii.onnx_graph import has_graph
from radii.smoothing.forward import frozen
from radii.smoothing.noise import noisy_copies

NO_GRADIENTS = "objective 'denoising': the classifier gives no gradients, expected stability = 0"


@dataclass(frozen=True, kw_only=True, eq=False)
class Denoising(Objective):
    """Mean squared error of the denoised noisy image, plus `stability` times a cross-entropy.

    The cross-entropy compares the classifier's prediction for the denoised image with its class for the clean image;
    labels are not used. With stability 0 the classifier is not used either, so it may be one without gradients.
    """

    stability: float = option(0.1, ge=0)
    stability_start: float = option(0.0, ge=0, le=1)
    """The share of the training before the cross-entropy counts, which costs a fraction of the rest."""

    def check_model(self, model: nn.Module) -> None:
        _, classifier = _denoiser_and_classifier(model)
        if self.stability and has_graph(classifier):
            raise ParameterError(NO_GRADIENTS)

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        denoiser, classifier = _denoiser_and_classifier(model)
        noisy = noisy_copies(batch.images, 1, self.sigma, step.rng).squeeze(0)
        clean = denoiser(noisy)
        terms = {"squared_error": (clean - batch.images).square().flatten(1).mean(1)}
        if self.stability and step.progress >= self.stability_start:
            terms["stability"] = self.stability * _disagreement(classifier, clean, batch.images)
        elif self.stability:
            terms["stability"] = torch.zeros_like(terms["squared_error"])
        return terms


def _denoiser_and_classifier(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return the denoiser and the classifier of a model."""
    for module in model.modules():
        denoiser, classifier = (getattr(module, part, None) for part in ("denoiser", "classifier"))
        if isinstance(denoiser, nn.Module) and isinstance(classifier, nn.Module):
            return denoiser, classifier
    raise ParameterError("objective 'denoising' trains the denoiser of a model, which this model lacks: use 'denoised'")


def _disagreement(classifier: nn.Module, denoised: Tensor, images: Tensor) -> Tensor:
    """Return the cross-entropy of the denoised images against the classes of the clean images: [batch]."""
    with frozen(classifier):
        with torch.no_grad():
            classes = classifier(images).argmax(1)
        logits = classifier(denoised)
    if denoised.requires_grad and not logits.requires_grad:
        raise ParameterError(NO_GRADIENTS)
    return F.cross_entropy(logits, classes, reduction="none")

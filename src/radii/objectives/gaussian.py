"""Gaussian augmentation: cross-entropy on noisy copies (Cohen, Rosenfeld & Kolter 2019)."""

from dataclasses import dataclass

from torch import nn

from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy
from radii.smoothing.forward import logits_of
from radii.smoothing.noise import noisy_copies


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaussian(Objective):
    """Mean cross-entropy over the noisy copies of each image."""

    copies: int = option(1, ge=1)

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        logits = logits_of(model, noisy_copies(batch.images, self.copies, self.sigma, step.rng))
        return {"cross_entropy": cross_entropy(logits, batch.labels).mean(0)}

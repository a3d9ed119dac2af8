"""MACER: maximise a differentiable certified radius, without attacks (Zhai et al. 2020)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms
from radii.smoothing.forward import logits_of
from radii.smoothing.noise import noisy_copies


@dataclass(frozen=True, kw_only=True, eq=False)
class Macer(Objective):
    """Cross-entropy of the mean prediction, plus `weight` times a hinge on the soft certified radius.

    The hinge applies where the sharpened mean prediction is correct and its radius, in units of sigma / 2,
    is finite and within the `margin`. `copies`, `weight`, `margin` and `sharpness` are k, lambda, gamma and
    beta. Equation 17 also sharpens the classification term, `sharpen_classification`; section 5.3 and the
    published models do not.
    """

    copies: int = option(16, ge=1)
    weight: float = option(12.0, ge=0)
    margin: float = option(8.0, gt=0)
    sharpness: float = option(16.0, gt=0)
    sharpen_classification: bool = option(False)
    start_epoch: int = option(0, ge=0)

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        logits = logits_of(model, noisy_copies(batch.images, self.copies, self.sigma, step.rng))
        sharpness = self.sharpness if self.sharpen_classification else 1.0
        likelihood = (sharpness * logits).softmax(-1).mean(0).gather(1, batch.labels[:, None]).squeeze(1)
        return {
            "cross_entropy": -(likelihood + 1e-10).log(),
            "robustness": self._robustness(logits, batch.labels, step.epoch),
        }

    def _robustness(self, logits: Tensor, labels: Tensor, epoch: int) -> Tensor:
        if epoch < self.start_epoch or self.weight == 0:
            return logits.new_zeros(len(labels))
        mean = (self.sharpness * logits).softmax(-1).mean(0)
        with torch.no_grad():
            gap = _gap(mean)
            kept = (mean.argmax(1) == labels) & gap.isfinite() & (gap.abs() <= self.margin)
        # The others get constant probabilities: an infinite gap would make every gradient NaN.
        missing = self.margin - _gap(mean.where(kept[:, None], 0.25))
        return (self.weight * self.sigma / 2 * missing).where(kept, 0)


def _gap(probabilities: Tensor) -> Tensor:
    """Return the soft certified radius in units of sigma / 2."""
    first, second = (math.sqrt(2) * torch.erfinv(2 * probabilities.topk(2).values - 1)).unbind(1)
    return first - second

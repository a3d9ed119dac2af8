"""Stability training: clean and noisy predictions agree (Zheng et al. 2016; Li, Chen, Wang & Carin 2019)."""

from dataclasses import dataclass

from torch import nn

from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy
from radii.smoothing.forward import logits_of
from radii.smoothing.noise import noisy_copies


@dataclass(frozen=True, kw_only=True, eq=False)
class Stability(Objective):
    """Cross-entropy of the clean image, plus `weight` times that of the noisy against the clean prediction.

    The noisy prediction is not compared with the label; gradients flow through both. `weight` is lambda in the
    Consistency paper, gamma in the CAT-RS paper.
    """

    weight: float = option(2.0, ge=0)

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        noisy = noisy_copies(batch.images, 1, self.sigma, step.rng)
        # Two forward passes, the clean one first, because BatchNorm computes separate statistics for each.
        clean_logits = logits_of(model, batch.images[None])
        noisy_logits = logits_of(model, noisy)
        disagreement = -(clean_logits.softmax(-1) * noisy_logits.log_softmax(-1)).sum(-1)
        return {
            "cross_entropy": cross_entropy(clean_logits, batch.labels).mean(0),
            "stability": self.weight * disagreement.mean(0),
        }

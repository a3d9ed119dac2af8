"""Certified robustness transfer, CRT: match a robust teacher under noise (Vaishnavi et al. 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from radii.fields import option, resource
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy
from radii.smoothing.forward import logits_of
from radii.smoothing.modes import evaluating
from radii.smoothing.noise import noisy_copies


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfer(Objective):
    """The l2 distance, not squared, of student and teacher on the same noisy image, mixed with cross-entropy.

    `match` says what is compared: "logits", as the published students were trained, or "softmax", as in
    Algorithm 1 of the paper. `label_weight` is the share of the cross-entropy.
    """

    match: str = option("logits", choices=("logits", "softmax"))
    label_weight: float = option(0.0, ge=0, le=1)
    teacher: nn.Module = resource()

    @classmethod
    def resource_help(cls, key: str) -> str:
        return "the model of a trained run"

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        noisy = noisy_copies(batch.images, 1, self.sigma, step.rng)
        with evaluating(self.teacher), torch.no_grad():
            wanted = logits_of(self.teacher, noisy)
        logits = logits_of(model, noisy)
        distance = (self._matched(logits) - self._matched(wanted)).norm(dim=-1)
        return {
            "distance": (1 - self.label_weight) * distance.mean(0),
            "cross_entropy": self.label_weight * cross_entropy(logits, batch.labels).mean(0),
        }

    def _matched(self, logits: Tensor) -> Tensor:
        return logits if self.match == "logits" else logits.softmax(-1)

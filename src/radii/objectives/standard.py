"""Standard training: cross-entropy on the images as they are, without noise."""

from dataclasses import dataclass

from torch import nn

from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy
from radii.smoothing.forward import logits_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Standard(Objective):
    """Cross-entropy of the clean image; `sigma` is the noise that the model will be certified with."""

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        return {"cross_entropy": cross_entropy(logits_of(model, batch.images[None]), batch.labels).squeeze(0)}

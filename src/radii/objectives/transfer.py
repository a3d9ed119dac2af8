"""Certified robustness transfer, CRT: match a robust teacher under noise (Vaishnavi et al. 2022)."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from radii.fields import option, resource
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy, divergence
from radii.smoothing.forward import evaluating, logits_of
from radii.smoothing.noise import noisy_copies


class Recording(Protocol):
    """The logits that the teacher gave in an earlier training with the same noise and augmentation."""

    def logits(self, epoch: int, indices: Tensor) -> Tensor | None: ...

    def record(self, epoch: int, indices: Tensor, logits: Tensor) -> None: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfer(Objective):
    """The distance between the student's and the teacher's output for the same noisy image, mixed with cross-entropy.

    `match` says what is compared: "logits", as the published students were trained, or "softmax", as in
    Algorithm 1 of the paper. `distance` is the paper's l2, its square, l1, or "kl", the divergence of the student's
    probabilities from the teacher's, as in distillation. `label_weight` is the share of the cross-entropy. Where `tape`
    has the teacher's logits for an epoch, the teacher does not run.
    """

    match: str = option("logits", choices=("logits", "softmax"))
    label_weight: float = option(0.0, ge=0, le=1)
    distance: str = option("l2", choices=("l2", "l2_squared", "l1", "kl"))
    teacher: nn.Module = resource()
    tape: Recording | None = resource()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distance == "kl" and self.match != "softmax":
            raise ValueError("objective 'transfer': distance = 'kl' compares probabilities, expected match = 'softmax'")

    def needs(self, key: str) -> bool:
        return key != "tape"

    @classmethod
    def resource_help(cls, key: str) -> str:
        return "the model of a trained run"

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        noisy = noisy_copies(batch.images, 1, self.sigma, step.rng)
        teacher_logits = self._teacher_logits(noisy, batch, step)
        logits = logits_of(model, noisy)
        return {
            "distance": (1 - self.label_weight) * self._distance(logits, teacher_logits).mean(0),
            "cross_entropy": self.label_weight * cross_entropy(logits, batch.labels).mean(0),
        }

    def _teacher_logits(self, noisy: Tensor, batch: Batch, step: Step) -> Tensor:
        recorded = self.tape.logits(step.epoch, batch.indices) if self.tape is not None else None
        if recorded is not None:
            return recorded[None]
        with evaluating(self.teacher), torch.no_grad():
            logits = logits_of(self.teacher, noisy)
        if self.tape is not None:
            self.tape.record(step.epoch, batch.indices, logits[0])
        return logits

    def _distance(self, logits: Tensor, teacher_logits: Tensor) -> Tensor:
        if self.distance == "kl":
            return divergence(teacher_logits.softmax(-1), logits.log_softmax(-1))
        gap = self._matched(logits) - self._matched(teacher_logits)
        if self.distance == "l2_squared":
            return gap.square().sum(-1)
        return gap.norm(dim=-1) if self.distance == "l2" else gap.abs().sum(-1)

    def _matched(self, logits: Tensor) -> Tensor:
        return logits if self.match == "logits" else logits.softmax(-1)

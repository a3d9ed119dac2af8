"""Consistency regularisation: the noisy copies of an image agree (Jeong & Shin 2020)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy, divergence, ramp, smoothed_loss
from radii.smoothing.attack import ascent, l2_ball
from radii.smoothing.forward import frozen, logits_of
from radii.smoothing.noise import noise_like, noisy_copies


@dataclass(frozen=True, kw_only=True, eq=False)
class Consistency(Objective):
    """Cross-entropy, plus the divergence of the mean prediction from each copy's, plus the mean's entropy.

    `copies`, `weight` and `entropy_weight` are m, lambda and eta. With `attack_steps` the copies are those of
    an adversarial image, "SmoothAdv + Consistency", whose radius rises to its full value over the warm-up.
    `agreement` "mse" is the squared distance of the first two copies' predictions instead of the divergence. The rows
    of the paper's Table 4 are "mse" and "kl" with `entropy_weight` 0, and "kl" with it equal to the weight.
    """

    copies: int = option(2, ge=1)
    weight: float = option(10.0, ge=0)
    entropy_weight: float = option(0.5, ge=0)
    attack_steps: int = option(0, ge=0)
    attack_radius: float = option(1.0, ge=0)
    warmup_epochs: int = option(10, ge=0)
    agreement: str = option("kl", choices=("kl", "mse"))
    weight_ramp: float = option(0.0, ge=0, le=1)
    """The share of the training over which both weights rise from 0, so that it begins as Gaussian training."""
    gaussian_start: float = option(0.0, ge=0, le=1)
    """The share of the training before the ramp that is Gaussian training with one copy, at half the cost of two."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.agreement == "mse" and self.copies < 2:
            raise ValueError(f"objective 'consistency': copies = {self.copies}, agreement = 'mse' needs at least 2")
        if self.gaussian_start + self.weight_ramp > 1:
            raise ValueError(
                f"objective 'consistency': gaussian_start = {self.gaussian_start} and weight_ramp = {self.weight_ramp} "
                "are shares of one training: expected at most 1 together"
            )

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        if step.progress < self.gaussian_start:
            return self._gaussian_terms(model, batch, step)
        noise = noise_like(batch.images, self.copies, self.sigma, step.rng)
        images = self._attacked(model, batch, noise, step.epoch) if self.attack_steps else batch.images
        logits = logits_of(model, images + noise)
        mean = logits.softmax(-1).mean(0)
        share = min(1.0, (step.progress - self.gaussian_start) / self.weight_ramp) if self.weight_ramp else 1.0
        return {
            "cross_entropy": cross_entropy(logits, batch.labels).mean(0),
            "agreement": share * self.weight * self._disagreement(logits, mean),
            "entropy": -share * self.entropy_weight * (mean * mean.clamp(min=1e-20).log()).sum(-1),
        }

    def _gaussian_terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        losses = cross_entropy(logits_of(model, noisy_copies(batch.images, 1, self.sigma, step.rng)), batch.labels)[0]
        nothing = torch.zeros_like(losses)
        return {"cross_entropy": losses, "agreement": nothing, "entropy": nothing}

    def _disagreement(self, logits: Tensor, mean: Tensor) -> Tensor:
        if self.agreement == "mse":
            first, second = logits[:2].softmax(-1).unbind()
            return (first - second).square().sum(-1)
        return divergence(mean, logits.log_softmax(-1)).mean(0)

    def _attacked(self, model: nn.Module, batch: Batch, noise: Tensor, epoch: int) -> Tensor:
        radius = self.attack_radius * ramp(epoch, self.warmup_epochs)
        ball = l2_ball(batch.images, radius)
        with frozen(model):
            *_, attacked = ascent(
                batch.images,
                lambda points: smoothed_loss(logits_of(model, points + noise), batch.labels).mean(),
                steps=self.attack_steps,
                step_size=2 * radius / self.attack_steps,
                project=lambda points: ball(points).clamp(0, 1),
            )
        return attacked

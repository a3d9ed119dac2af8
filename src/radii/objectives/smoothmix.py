"""SmoothMix: predictions interpolate linearly from an image to its adversarial example (Jeong et al. 2021)."""

from dataclasses import dataclass

from torch import Tensor, nn

from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy, divergence, ramp, smoothed_loss
from radii.smoothing.attack import ascent, l2_ball
from radii.smoothing.forward import frozen, logits_of
from radii.smoothing.noise import noise_like
from radii.smoothing.streams import uniform_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothMix(Objective):
    """Cross-entropy, plus `weight` times the divergence on a mixture of the image and its adversarial example.

    The target moves from the mean prediction to uniform with the share of the adversarial example; images whose mean
    prediction is wrong are left out. `copies`, `steps`, `step_size` and `weight` are m, T, alpha and eta; the weight
    rises over the warm-up. With `mix_step` 1 the one-step adversarial example replaces the image.
    """

    copies: int = option(2, ge=1)
    steps: int = option(4, ge=1)
    step_size: float = option(0.5, ge=0)
    weight: float = option(5.0, ge=0)
    mix_step: int = option(0, ge=0, le=1)
    warmup_epochs: int = option(10, ge=0)

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        images, strength = batch.images, ramp(step.epoch, self.warmup_epochs)
        noise = noise_like(images, self.copies, self.sigma, step.rng)
        near, far = self._ends(model, batch, noise, strength)
        share = uniform_rows(len(images), 1, step.rng, dtype=images.dtype, device=images.device).squeeze(1) / 2

        logits = logits_of(model, near + noise)
        mean = logits.softmax(-1).mean(0)
        by_image, by_class = share.view(-1, *(1 for _ in images.shape[1:])), share[:, None]
        mixed_logits = logits_of(model, (1 - by_image) * near + by_image * far + noise)
        targets = (1 - by_class) * mean + by_class / mean.shape[1]
        mixing = divergence(targets, mixed_logits.log_softmax(-1)).mean(0)
        return {
            "cross_entropy": cross_entropy(logits, batch.labels).mean(0),
            "mixing": self.weight * strength * mixing.where(mean.argmax(1) == batch.labels, 0),
        }

    def _ends(self, model: nn.Module, batch: Batch, noise: Tensor, strength: float) -> tuple[Tensor, Tensor]:
        """Return the two images to mix: the image, or its one-step adversarial example, and the last one."""
        with frozen(model):
            points = ascent(
                batch.images,
                lambda points: smoothed_loss(logits_of(model, points + noise), batch.labels).sum(),
                steps=self.steps,
                step_size=self.step_size,
                project=lambda points: points.clamp(0, 1),
            )
            path = [batch.images, *points]
        near = path[self.mix_step] if self.mix_step < self.steps else batch.images
        return l2_ball(batch.images, strength * self.step_size * self.mix_step)(near).clamp(0, 1), path[-1]

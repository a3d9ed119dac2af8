"""SmoothAdv: adversarial training of the smoothed classifier (Salman et al. 2019).

The attack maximises minus the log of the mean probability over noisy copies; the update reuses the same noise.
"""

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy, ramp, smoothed_loss
from radii.smoothing.attack import ascent, decoupled_ascent, l2_ball, unit_or_random
from radii.smoothing.forward import frozen, logits_of
from radii.smoothing.noise import noise_like


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothAdv(Objective):
    """Mean cross-entropy over the noisy copies of an attacked image.

    `copies`, `steps` and `radius` are m, T and epsilon; the radius rises to its full value over the warm-up. With
    `update_on` "first" the attack sees all copies and the loss only the first, as in the authors' script without its
    option for several; `images_per_step` is then not divided by the copies.
    """

    copies: int = option(4, ge=1)
    attack: str = option("pgd", choices=("pgd", "ddn"))
    steps: int = option(10, ge=1)
    radius: float = option(1.0, ge=0)
    warmup_epochs: int = option(10, ge=0)
    update_on: str = option("all", choices=("all", "first"))

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        noise = noise_like(batch.images, self.copies, self.sigma, step.rng)
        attack = self._pgd if self.attack == "pgd" else self._ddn
        with frozen(model):
            attacked = attack(model, batch, noise, step)
        logits = logits_of(model, attacked + (noise if self.update_on == "all" else noise[:1]))
        return {"cross_entropy": cross_entropy(logits, batch.labels).mean(0)}

    def _pgd(self, model: nn.Module, batch: Batch, noise: Tensor, step: Step) -> Tensor:
        radius = self.radius * ramp(step.epoch, self.warmup_epochs)
        ball = l2_ball(batch.images, radius)
        *_, attacked = ascent(
            batch.images,
            lambda points: _gain(logits_of(model, points + noise), batch.labels),
            steps=self.steps,
            step_size=2 * radius / self.steps,
            project=lambda points: ball(points.clamp(0, 1)),
            direction=partial(unit_or_random, rng=step.rng),
        )
        return attacked

    def _ddn(self, model: nn.Module, batch: Batch, noise: Tensor, step: Step) -> Tensor:
        def look(points: Tensor) -> tuple[Tensor, Tensor]:
            logits = logits_of(model, points + noise)
            return _gain(logits, batch.labels), logits.argmax(-1).mode(0).values != batch.labels

        return decoupled_ascent(
            batch.images,
            look,
            steps=self.steps,
            radius=self.radius * ramp(step.epoch, self.warmup_epochs),
            direction=partial(unit_or_random, rng=step.rng),
        )


def _gain(logits: Tensor, labels: Tensor) -> Tensor:
    if len(logits) == 1:
        # The gradient has the same direction, and does not vanish where the probability underflows.
        return cross_entropy(logits, labels).sum()
    return smoothed_loss(logits, labels).mean()

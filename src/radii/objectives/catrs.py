"""CAT-RS: confidence-aware training, a worst-case loss only where the model is confident (Jeong, Kim & Shin 2023)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from radii.fields import option, resource
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy, divergence
from radii.smoothing.attack import ascent, l2_ball, same_moments
from radii.smoothing.forward import frozen, is_batch_independent, logits_of
from radii.smoothing.noise import noise_like
from radii.smoothing.streams import RowGenerator


@dataclass(frozen=True, kw_only=True, eq=False)
class CatRs(Objective):
    """The copies' lowest cross-entropies, plus `weight` times the worst divergence under attacked noise.

    How many copies count is drawn from a binomial of the confidence; the worst case counts only for images of
    which all copies count. `copies`, `steps`, `radius` and `weight` are M, T, epsilon and lambda.
    The radius doubles at the epoch `double_at`, as on ImageNet; 0 is never. `standardise` resets the
    attacked noise to its initial mean and root mean square at every step, as for the published models, or to its
    initial mean and standard deviation once at the end, as in the paper.

    The other fields are for the ablations of the paper's Tables 8 and 9. `label_term` uses the copies' lowest
    cross-entropies, the mean over "all" copies, or "none"; without `mask` the worst case counts for every image;
    `over_copies` takes the worst or the mean of the attacked copies; `target` is the prediction that they should give,
    of which "mean_prediction" is detached.
    """

    copies: int = option(4, ge=1)
    steps: int = option(4, ge=1)
    radius: float = option(1.0, ge=0)
    double_at: int = option(0, ge=0)
    weight: float = option(1.0, ge=0)
    accept_by: str = option("model", choices=("model", "soft_labels"))
    standardise: str = option("rms_each_step", choices=("rms_each_step", "std_once"))
    label_term: str = option("lowest", choices=("lowest", "all", "none"))
    mask: bool = option(True)
    over_copies: str = option("max", choices=("max", "mean"))
    target: str = option("soft_labels", choices=("soft_labels", "mean_prediction", "hard_label"))
    soft_labels: Tensor = resource()
    """[image of the training split, class]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_term == "none" and (self.mask or not self.weight):
            raise ValueError(
                "objective 'catrs': label_term = 'none' leaves no loss where no image is confident, "
                "expected mask = false and a weight > 0"
            )

    @classmethod
    def resource_help(cls, key: str) -> str:
        return "the shares of votes that a trained run gives its training images"

    def needs(self, key: str) -> bool:
        return "soft_labels" in (self.target, self.accept_by)

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        images = batch.images
        noise = noise_like(images, self.copies, self.sigma, step.rng)
        logits = logits_of(model, images + noise)
        accepted = self._accepted(logits, batch, step.rng)
        confident = (accepted == self.copies) | (not self.mask)
        targets = self._targets(logits, batch)
        # Only confident images need an attack. All are attacked where they affect batch statistics, and on devices,
        # where selecting images would wait for the device.
        if images.device.type == "cpu" and is_batch_independent(model):
            worst = images.new_zeros(len(images))
            if confident.any():
                chosen = images[confident], noise[:, confident], targets[confident]
                worst = worst.masked_scatter(confident, self._worst(model, *chosen, step.epoch))
        else:
            worst = self._worst(model, images, noise, targets, step.epoch)
        label_term = self._label_term(logits, batch.labels, accepted)
        return {**label_term, "worst_case": self.weight * worst.where(confident, 0)}

    def _label_term(self, logits: Tensor, labels: Tensor, accepted: Tensor) -> Terms:
        if self.label_term == "none":
            return {}
        losses = cross_entropy(logits, labels)
        if self.label_term == "all":
            return {"cross_entropy": losses.mean(0)}
        ranks = torch.arange(self.copies, device=losses.device)[:, None]
        return {"lowest_cross_entropy": losses.sort(0).values.where(ranks < accepted, 0).sum(0) / self.copies}

    def _targets(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the predictions that the attacked copies should give: [batch, class]."""
        if self.target == "mean_prediction":
            return logits.detach().softmax(-1).mean(0)
        if self.target == "hard_label":
            return torch.nn.functional.one_hot(batch.labels, logits.shape[-1]).to(logits)
        return self._soft_labels(batch)

    def _soft_labels(self, batch: Batch) -> Tensor:
        return self.soft_labels[batch.indices.to(self.soft_labels.device)].to(batch.images)

    def _accepted(self, logits: Tensor, batch: Batch, rng: torch.Generator) -> Tensor:
        """Draw how many copies of each image count, at least one: [batch]."""
        if self.accept_by == "model":
            confidence = (logits.argmax(-1) == batch.labels).to(batch.images.dtype).mean(0)
        else:
            confidence = self._soft_labels(batch).gather(1, batch.labels[:, None]).squeeze(1)
        if isinstance(rng, RowGenerator):
            drawn = rng.uniform(len(confidence), self.copies, device=confidence.device)
            return (drawn < confidence[:, None]).sum(1).to(confidence).clamp(min=1)
        trials = torch.full_like(confidence, self.copies)
        return torch.binomial(trials, confidence, generator=rng).clamp(min=1)

    def _worst(self, model: nn.Module, images: Tensor, noise: Tensor, targets: Tensor, epoch: int) -> Tensor:
        """Return the largest divergence, or the mean, of the attacked copies of each image: [batch]."""

        def divergences(flat: Tensor) -> Tensor:
            logits = logits_of(model, images + flat.view_as(noise))
            return divergence(targets, logits.log_softmax(-1))

        start, each_step = noise.flatten(0, 1), self.standardise == "rms_each_step"
        radius = self.radius * (2 if 0 < self.double_at <= epoch else 1)
        ball, standardised = l2_ball(start, radius), same_moments(start, centred=not each_step)
        with frozen(model):
            *_, attacked = ascent(
                start,
                lambda flat: divergences(flat).mean(0).sum(),
                steps=self.steps,
                step_size=2 * radius / self.steps,
                project=(lambda flat: standardised(ball(flat))) if each_step else ball,
            )
        by_copy = divergences(attacked if each_step else standardised(attacked))
        return by_copy.max(0).values if self.over_copies == "max" else by_copy.mean(0)

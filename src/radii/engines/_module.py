"""The smoothed classifier as a torch module with gradients, for attacks and metrics of other libraries."""

import secrets

import torch
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.fields import check_seed
from radii.smoothing.addresses import generator
from radii.smoothing.forward import evaluating
from radii.smoothing.logits import check_rows
from radii.smoothing.noise.base import Noise

SMALLEST = 1e-20
"""The least probability whose logarithm is taken."""


class SmoothedModule(nn.Module):
    """The mean class probabilities of a base classifier under noise, or their logarithms: [batch, class]."""

    def __init__(
        self, base: nn.Module, noise: Noise, classes: int, samples: int, seed: int | None, logits: bool
    ) -> None:
        super().__init__()
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ParameterError(f"samples = {samples!r}, expected a whole number >= 1", "samples")
        self.base = base
        self.noise = noise
        self.classes = classes
        self.samples = samples
        self.seed = None if seed is None else check_seed(seed)
        self.logits = logits

    def extra_repr(self) -> str:
        return f"{self.noise}, samples={self.samples}, seed={self.seed}, logits={self.logits}"

    def forward(self, images: Tensor) -> Tensor:
        """Return the mean over the noisy copies of every image; the base runs in eval mode."""
        if images.ndim != 4:
            shape = list(images.shape)
            raise ParameterError(f"The images have shape {shape}. Pass [batch, channel, height, width].", "images")
        copies = images + self._noise(images)
        with evaluating(self.base):
            output = check_rows(self.base(copies.flatten(0, 1)), self.samples * len(images), self.classes)
        if images.requires_grad and torch.is_grad_enabled() and not output.requires_grad:
            raise ParameterError("The base classifier gives no gradients. Wrap one that computes with torch.", "base")
        means = output.float().softmax(-1).view(self.samples, len(images), self.classes).mean(0)
        return means.clamp(min=SMALLEST).log() if self.logits else means

    def _noise(self, images: Tensor) -> Tensor:
        """Draw noise [copy, batch, ...]; with a seed it is the same for all images: [copy, 1, ...]."""
        seed = secrets.randbits(128) if self.seed is None else self.seed
        rng = generator(images.device, "module", seed)
        return self.noise.offsets(images.detach() if self.seed is None else images.detach()[:1], self.samples, rng)

"""Gaussian noise: protects against changes that are small in l2 (Cohen et al. 2019, Theorem 1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from radii.fields import option
from radii.smoothing.bounds import gaussian_probability, gaussian_radius
from radii.smoothing.noise.base import Noise
from radii.smoothing.norms import L2, Norm
from radii.smoothing.streams import RowGenerator, Stream


@dataclass(frozen=True)
class Gaussian(Noise):
    """Independent normal noise on every pixel; `sigma` is its standard deviation, pixels in [0, 1]."""

    norm: ClassVar[Norm] = L2

    sigma: float = option(gt=0)

    def perturb(self, pixels: Tensor, out: Tensor, rng: torch.Generator) -> Tensor:
        out.normal_(generator=rng)
        return torch.add(pixels, out, alpha=self.sigma, out=out)

    def draw(self, pixels: Tensor, out: Tensor, stream: Stream, first: int) -> Tensor:
        stream.fill_normal(out.view(len(out), -1), first, deviation=self.sigma)
        return out.add_(pixels)

    def offsets(self, images: Tensor, copies: int, rng: torch.Generator) -> Tensor:
        # Grid noise, too, is not rounded here: the images may be off the grid.
        return noise_like(images, copies, self.sigma, rng)

    def radius(self, probability: Any, runner_up: Any = None) -> Any:
        return gaussian_radius(self.sigma, probability, runner_up)

    def probability_for(self, radius: float) -> float:
        return gaussian_probability(self.sigma, radius)

    def probability_after(self, probability: Any, radius: float) -> Any:
        from scipy.special import ndtr, ndtri  # not above: workers start without scipy, see `bounds`

        return ndtr(ndtri(probability) - radius / self.sigma)


def noise_like(images: Tensor, copies: int, sigma: float, rng: torch.Generator) -> Tensor:
    """Draw Gaussian noise for copies of every image: [copy, batch, channel, height, width], one draw."""
    if isinstance(rng, RowGenerator):
        drawn = rng.normal(copies, len(images), images[0].numel(), deviation=sigma, device=images.device)
        return drawn.view(copies, *images.shape).to(images.dtype)
    noise = torch.randn((copies, *images.shape), generator=rng, dtype=images.dtype, device=images.device)
    return noise.mul_(sigma)


def noisy_copies(images: Tensor, count: int, sigma: float, rng: torch.Generator) -> Tensor:
    """Draw copies of every image, each with its own Gaussian noise: [copy, batch, channel, height, width], one draw."""
    return noise_like(images, count, sigma, rng).add_(images)

"""Gradient ascent on images: adversarial attacks in l2."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from radii.smoothing.norms import L2, l2_lengths
from radii.smoothing.streams import Draws, RowGenerator

Projection = Callable[[Tensor], Tensor]
FLOAT16_SCALE = 1024.0
"""The factor of a gradient that is computed in float16."""


def unit(gradient: Tensor) -> Tensor:
    """Normalise the gradient of each image; a zero gradient stays zero."""
    return gradient / (l2_lengths(gradient) + 1e-8)


def unit_or_random(gradient: Tensor, rng: torch.Generator) -> Tensor:
    """Normalise the gradient of each image; a zero gradient becomes Gaussian noise.

    On a CPU noise is drawn only for images that need it. To know them, other devices would have to be waited for, so
    there it is drawn for all.
    """
    lengths = l2_lengths(gradient)
    if isinstance(rng, RowGenerator):
        return _unit_or_row(gradient, lengths, rng)
    if gradient.device.type != "cpu":
        noise = torch.randn(gradient.shape, generator=rng, dtype=gradient.dtype, device=gradient.device)
        return torch.where(lengths == 0, noise, gradient / lengths)
    flat = lengths.flatten() == 0
    if not flat.any():
        return gradient / lengths
    shape = (int(flat.sum()), *gradient.shape[1:])
    noise = torch.randn(shape, generator=rng, dtype=gradient.dtype, device=gradient.device)
    return (gradient / lengths).index_put((flat,), noise)


def _unit_or_row(gradient: Tensor, lengths: Tensor, rng: RowGenerator) -> Tensor:
    if gradient.device.type == "cpu" and not (lengths == 0).any():
        rng.next_lane()  # as where other images of the step, or another device, need the noise
        return gradient / lengths
    noise = rng.normal(1, len(gradient), gradient[0].numel(), deviation=1.0, device=gradient.device)
    return torch.where(lengths == 0, noise.view(gradient.shape).to(gradient.dtype), gradient / lengths)


def unit_or_drawn(gradient: Tensor, draws: Draws) -> Tensor:
    """Normalise the gradient of each image; a zero gradient becomes Gaussian noise, drawn in any case."""
    lengths = l2_lengths(gradient)
    noise = draws.normal(*gradient.shape).to(gradient.dtype)
    return torch.where(lengths == 0, noise, gradient / lengths)


def ascent(
    start: Tensor,
    gain: Callable[[Tensor], Tensor],
    *,
    steps: int,
    step_size: float,
    project: Projection,
    direction: Callable[[Tensor], Tensor] = unit,
) -> Iterator[Tensor]:
    """Yield the successive points of normalised gradient ascent from `start`, without `start` itself.

    `gain` maps points to one number whose gradient is taken; every image moves by `step_size` along its own
    direction and is then projected.
    """
    point = start.detach()
    for _ in range(steps):
        with torch.enable_grad():
            leaf = point.detach().requires_grad_()
            gradient = _gradient(gain(leaf), leaf)
        point = project(point + step_size * direction(gradient))
        yield point


def decoupled_ascent(
    images: Tensor,
    look: Callable[[Tensor], tuple[Tensor, Tensor]],
    *,
    steps: int,
    radius: float,
    direction: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return the nearest adversarial example by decoupled direction and norm (Rony et al. 2019), or else the image.

    `look` maps points to the number whose gradient is taken and to whether each is misclassified. The
    norm of the offset shrinks after a success and grows after a failure; all points tried are 8-bit images
    but the first.
    """
    farthest = l2_lengths(torch.maximum(images, 1 - images))
    norm, best_norm = torch.full_like(farthest, radius), farthest
    offset = best = torch.zeros_like(images)
    for number in range(steps):
        with torch.enable_grad():
            leaf = (images + offset).requires_grad_()
            gain, fooled = look(leaf)
        fooled = fooled.view_as(norm)
        nearer = fooled & (l2_lengths(offset) < best_norm)
        best, best_norm = torch.where(nearer, offset, best), torch.where(nearer, l2_lengths(offset), best_norm)
        # The point that the last gradient leads to would never be evaluated.
        if number < steps - 1:
            gradient = _gradient(gain, leaf)
            # Descent on the negative gain: where the gradient is zero, the step goes against the noise drawn instead.
            offset = offset - _cosine(number + 1, steps) * direction(-gradient)
            norm = torch.minimum(torch.where(fooled, 0.95 * norm, 1.05 * norm), farthest)
            offset = offset * (norm / l2_lengths(offset).clamp(min=1e-12))
            offset = _grey_levels(images + offset).clamp(0, 1) - images
    return images + _grey_levels(L2.shrink(best, radius))


def _gradient(gain: Tensor, leaf: Tensor) -> Tensor:
    """Return the gradient of the gain; in float16 it is scaled meanwhile, so that small values do not become zero."""
    device = leaf.device.type
    if not torch.is_autocast_enabled(device) or torch.get_autocast_dtype(device) != torch.float16:
        return torch.autograd.grad(gain, leaf)[0]
    return torch.autograd.grad(FLOAT16_SCALE * gain, leaf)[0] / FLOAT16_SCALE


def l2_ball(center: Tensor, radius: float) -> Projection:
    """Return the projection to the l2 ball around each image of `center`."""
    return lambda points: L2.project(center, points, radius)


def same_moments(reference: Tensor, *, centred: bool) -> Projection:
    """Shift and scale each image to its reference's mean and root mean square, or deviation if `centred`."""

    def moments(images: Tensor) -> tuple[Tensor, Tensor]:
        pixels = tuple(range(1, images.dim()))
        mean = images.mean(pixels, keepdim=True)
        return mean, (images - mean if centred else images).square().mean(pixels, keepdim=True).sqrt()

    target_mean, target_spread = moments(reference)

    def project(points: Tensor) -> Tensor:
        mean, spread = moments(points)
        return target_mean + target_spread * (points - mean) / spread

    return project


def _grey_levels(pixels: Tensor) -> Tensor:
    return (pixels * 255).round() / 255


def _cosine(number: int, steps: int) -> float:
    """Return the step size of update `number`, counted from one: it falls from one to a hundredth."""
    return 0.01 + 0.99 * (1 + math.cos(math.pi * number / steps)) / 2

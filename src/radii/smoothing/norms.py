"""Norms: how the length of a change is measured, and what a radius in one norm proves in another."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Norm:
    """The norm of order p of all values of an image: 1, 2, or infinity for the largest change of any value."""

    name: str
    order: float

    def divisor(self, other: "Norm", dimensions: int) -> float:
        """Return what a radius in this norm is divided by for the radius in `other`, for images of so many values.

        No change of d values is longer in p than d^(1/p - 1/q) times its length in q, nor than this where p >= q.
        """
        return math.pow(dimensions, max(0.0, 1 / self.order - 1 / other.order))

    def implied(self, radius: float, other: "Norm", dimensions: int) -> float:
        """Return the radius in `other` that a radius in this norm proves: that of the largest ball inside its ball."""
        return radius / self.divisor(other, dimensions)

    def length(self, change: Any) -> float:
        """Return the length of a change, an array or a tensor in the CPU's memory, in double precision."""
        import numpy as np

        return float(np.linalg.norm(np.asarray(change, dtype=np.float64).ravel(), self.order))

    def project(self, center: "Tensor", points: "Tensor", radius: float) -> "Tensor":
        """Return the nearest point, in l2, to each image of `points` in this norm's ball around that of `center`."""
        return center + self.shrink(points - center, radius)

    def shrink(self, offset: "Tensor", radius: float) -> "Tensor":
        """Return the nearest offset, in l2, to that of each image, no longer than the radius."""
        if self == LINF:
            return offset.clamp(-radius, radius)
        if self == L1:
            return _shrink_l1(offset, radius)
        return offset * (radius / l2_lengths(offset).clamp(min=1e-12)).clamp(max=1.0)

    def reach(self, radius: float, dimensions: int) -> float:
        """Return the l2 length of the longest change inside a ball of this norm."""
        return radius * L2.divisor(self, dimensions)

    def __str__(self) -> str:
        return self.name


L1 = Norm("l1", 1.0)
L2 = Norm("l2", 2.0)
LINF = Norm("linf", float("inf"))
NORMS = {norm.name: norm for norm in (L1, L2, LINF)}
"""All norms by name."""
L2_NOISES = ("gaussian", "grid")
"""The noises whose files state no norm: it is l2."""


def norm_of(value: Norm | str) -> Norm:
    """Return a norm, by itself or by its name."""
    norm = NORMS.get(str(value))
    if norm is None or value not in (norm, norm.name):
        raise ValueError(f"norm = {value!r}, expected one of {', '.join(NORMS)}")
    return norm


def l2_lengths(images: "Tensor") -> "Tensor":
    """Return the l2 norm of each image, shaped to broadcast over it."""
    import torch

    norms: Tensor = torch.linalg.vector_norm(images, dim=tuple(range(1, images.dim())), keepdim=True)
    return norms


def _shrink_l1(offset: "Tensor", radius: float) -> "Tensor":
    """Subtract from the size of each value what makes the sum of sizes the radius (Duchi et al. 2008)."""
    import torch

    sizes = offset.flatten(1).abs()
    largest = sizes.sort(dim=1, descending=True).values
    ranks = torch.arange(1, sizes.shape[1] + 1, dtype=sizes.dtype, device=sizes.device)
    excess = (largest.cumsum(1) - radius) / ranks
    kept = (largest > excess).sum(1, keepdim=True).clamp(min=1)
    threshold = excess.gather(1, kept - 1).clamp(min=0)
    return (offset.flatten(1).sign() * (sizes - threshold).clamp(min=0)).view_as(offset)

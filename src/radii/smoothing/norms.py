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
        """What a radius in this norm is divided by for the radius in `other`, for images of so many values.

        No change of d values is longer in p than d^(1/p - 1/q) times its length in q, nor than this where p >= q.
        """
        return math.pow(dimensions, max(0.0, 1 / self.order - 1 / other.order))

    def implied(self, radius: float, other: "Norm", dimensions: int) -> float:
        """The radius in `other` that a radius in this norm proves: that of the largest ball inside its ball."""
        return radius / self.divisor(other, dimensions)

    def length(self, change: Any) -> float:
        """The length of a change, an array or a tensor in the CPU's memory, in double precision."""
        import numpy as np

        return float(np.linalg.norm(np.asarray(change, dtype=np.float64).ravel(), self.order))

    def project(self, center: "Tensor", points: "Tensor", radius: float) -> "Tensor":
        """The nearest point, in l2, to each image of `points` in the ball of this norm around that of `center`."""
        from radii.smoothing.attack import l1_ball, l2_ball, linf_ball

        ball = {L1: l1_ball, L2: l2_ball, LINF: linf_ball}[self]
        return ball(center, radius)(points)

    def reach(self, radius: float, dimensions: int) -> float:
        """The l2 length of the longest change inside a ball of this norm."""
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

"""Norms: what a radius implies in another one, the balls of attacks, and the norm that every noise states."""

import math
from typing import Any, ClassVar

import pytest
import torch

from radii.smoothing.noise import Gaussian, Noise
from radii.smoothing.noise.grid import Grid
from radii.smoothing.norms import L1, L2, LINF, NORMS, Norm, norm_of


class Half(Noise):
    """The rest of a noise, for tests of its norm."""

    norm: ClassVar[Any] = "l1"

    def perturb(self, pixels: torch.Tensor, out: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        return out.copy_(pixels)

    def radius(self, probability: Any, runner_up: Any = None) -> Any:
        return probability

    def probability_for(self, radius: float) -> float:
        return radius


@pytest.mark.parametrize(
    ("norm", "other", "divisor"),
    [(L2, LINF, 8), (L1, LINF, 64), (LINF, LINF, 1), (L1, L2, 8), (L2, L1, 1), (LINF, L2, 1), (L2, L2, 1)],
)
def test_implied_radius_is_that_of_the_largest_ball_inside(norm: Norm, other: Norm, divisor: int) -> None:
    radius = norm.implied(1.5, other, 64)
    assert radius == 1.5 / divisor
    for change in (torch.ones(64), torch.eye(64)[3], torch.randn(64, generator=torch.Generator().manual_seed(0))):
        assert norm.length(change * radius / other.length(change)) <= 1.5 * (1 + 1e-6)


@pytest.mark.parametrize("norm", NORMS.values())
@pytest.mark.parametrize("radius", [0.0, 0.3, 50.0])
def test_projection_is_the_nearest_point_of_the_ball(norm: Norm, radius: float) -> None:
    rng = torch.Generator().manual_seed(0)
    center, points = torch.rand(5, 1, 4, 4, generator=rng), torch.rand(5, 1, 4, 4, generator=rng)
    projected = norm.project(center, points, radius)
    for image, point, nearest in zip(center, points, projected, strict=True):
        assert norm.length(nearest - image) <= radius * (1 + 1e-5) + 1e-6
        if norm.length(point - image) <= radius:
            assert torch.allclose(nearest, point)
        for _ in range(20):
            other = torch.randn(1, 4, 4, generator=rng)
            inside = image + other * (radius / norm.length(other))
            assert L2.length(nearest - point) <= L2.length(inside - point) + 1e-5


def test_reach_is_the_length_of_the_longest_change_in_the_ball() -> None:
    assert [norm.reach(0.5, 64) for norm in (L1, L2, LINF)] == [0.5, 0.5, 4.0]


def test_noise_may_state_its_norm_by_name() -> None:
    assert Half.norm is L1
    assert str(Half.norm) == "l1"
    assert Gaussian(0.25).norm is Grid(0.25).norm is L2
    assert math.isinf(norm_of("linf").order)


@pytest.mark.parametrize("name", ["l3", "", "L2", None, [], Norm("l2", 1.0)])
def test_unknown_norms_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="expected one of l1, l2, linf"):
        norm_of(name)


def test_noise_without_a_norm_is_refused() -> None:
    with pytest.raises(TypeError, match="Nameless has radii of no norm"):
        type("Nameless", (Noise,), {"radius": Half.radius})

import math

import pytest
import torch
from torch import Tensor

from radii.smoothing.attack import (
    ascent,
    decoupled_ascent,
    l2_ball,
    same_moments,
    unit,
    unit_or_random,
)
from radii.smoothing.norms import l2_lengths


def images(count: int = 3) -> Tensor:
    return torch.rand((count, 2, 3, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def anything(points: Tensor) -> Tensor:
    return points


def test_ascent_yields_every_point_and_not_the_start() -> None:
    start, slope = images(), images() - 0.5
    points = list(ascent(start, lambda points: (slope * points).sum(), steps=3, step_size=0.2, project=anything))
    for number, point in enumerate(points, start=1):
        torch.testing.assert_close(point, start + 0.2 * number * slope / l2_lengths(slope), rtol=1e-6, atol=0)
    assert not any(point.requires_grad for point in points)
    assert torch.equal(start, images())


def test_ascent_projects_after_every_step() -> None:
    start = torch.zeros((1, 1, 1, 1), dtype=torch.float64)
    points = list(
        ascent(
            start,
            lambda points: points.sum(),
            steps=4,
            step_size=0.4,
            project=lambda p: p.clamp(max=0.5),
        )
    )
    assert [point.item() for point in points] == pytest.approx([0.4, 0.5, 0.5, 0.5])


def test_zero_gradient_gives_a_zero_step_or_fresh_noise() -> None:
    gradient = images()
    gradient[1] = 0
    assert not unit(gradient)[1].any()
    rng, twin = (torch.Generator().manual_seed(2) for _ in range(2))
    direction = unit_or_random(gradient, rng)
    assert torch.equal(direction[1], torch.randn((1, 2, 3, 3), generator=twin, dtype=torch.float64)[0])
    torch.testing.assert_close(direction[::2], gradient[::2] / l2_lengths(gradient[::2]))
    assert torch.equal(rng.get_state(), twin.get_state())


def test_no_noise_is_drawn_for_nonzero_gradients() -> None:
    rng = torch.Generator().manual_seed(2)
    before = rng.get_state()
    direction = unit_or_random(images(), rng)
    torch.testing.assert_close(l2_lengths(direction).flatten(), torch.ones(3, dtype=torch.float64))
    assert torch.equal(rng.get_state(), before)


def test_l2_ball_moves_only_points_outside() -> None:
    center = images()
    offset = torch.stack([0.1 * images()[0], 5 * images()[1], 0 * images()[2]])
    inside, outside, still = l2_ball(center, 0.9)(center + offset) - center
    torch.testing.assert_close(inside, offset[0])
    torch.testing.assert_close(outside, 0.9 * offset[1] / offset[1].norm())
    assert not still.any()
    assert torch.equal(l2_ball(center, 0.0)(center + offset), center)


def test_same_moments_shifts_and_scales() -> None:
    reference, points = images() + 1, 3 * images().flip(0) - 0.7
    centred = same_moments(reference, centred=True)(points)
    for moved, wanted, old in zip(centred, reference, points, strict=True):
        assert moved.mean().item() == pytest.approx(wanted.mean().item())
        assert moved.std().item() == pytest.approx(wanted.std().item())
        assert torch.corrcoef(torch.stack([moved.flatten(), old.flatten()]))[0, 1].item() == pytest.approx(1)
    for centring in (False, True):
        torch.testing.assert_close(same_moments(reference, centred=centring)(reference), reference)
    by_rms = same_moments(reference, centred=False)(points)
    ratio = reference.square().mean((1, 2, 3)).sqrt() / points.square().mean((1, 2, 3)).sqrt()
    torch.testing.assert_close(by_rms.std((1, 2, 3)), ratio * points.std((1, 2, 3)))


def test_decoupled_ascent_finds_the_distance_to_a_plane() -> None:
    """A plane at a known distance: the result is just beyond it, and its pixels are multiples of 1/255."""
    center = torch.full((2, 1, 4, 4), 128 / 255, dtype=torch.float64)
    distances = torch.tensor([0.3, 9.0], dtype=torch.float64)
    normal = torch.full((1, 4, 4), 0.25, dtype=torch.float64)

    def look(points: Tensor) -> tuple[Tensor, Tensor]:
        height = ((points - center) * normal).flatten(1).sum(1) - distances
        return height.sum(), height > 0

    found = decoupled_ascent(center, look, steps=40, radius=1.0, direction=unit) - center
    assert 0.3 < found[0].norm().item() < 0.34
    assert not found[1].any(), "a plane out of reach leaves the image as it is"
    torch.testing.assert_close(found * 255, (found * 255).round())


def test_decoupled_ascent_steps_against_noise_where_the_gradient_is_zero() -> None:
    center = torch.full((1, 1, 4, 4), 0.5, dtype=torch.float64)
    tried = []

    def look(points: Tensor) -> tuple[Tensor, Tensor]:
        tried.append(points.detach() - center)
        return 0 * points.sum(), torch.zeros(1, dtype=torch.bool)

    rng, twin = (torch.Generator().manual_seed(2) for _ in range(2))
    decoupled_ascent(center, look, steps=2, radius=0.5, direction=lambda gradient: unit_or_random(gradient, rng))
    noise = torch.randn((1, 1, 4, 4), generator=twin, dtype=torch.float64)
    torch.testing.assert_close(tried[1], -0.525 * noise / noise.norm(), rtol=0, atol=0.5 / 255 + 1e-9)


def test_decoupled_ascent_keeps_misclassified_images_and_shrinks_to_the_radius() -> None:
    center = torch.full((1, 1, 4, 4), 0.5, dtype=torch.float64)
    slope = torch.arange(16, dtype=torch.float64).view(1, 1, 4, 4)

    def fooled_beyond(distance: float, radius: float) -> Tensor:
        def look(points: Tensor) -> tuple[Tensor, Tensor]:
            return (slope * points).sum(), l2_lengths(points.detach() - center).flatten() >= distance

        return decoupled_ascent(center, look, steps=20, radius=radius, direction=unit) - center

    assert not fooled_beyond(0.0, 0.5).any()
    assert fooled_beyond(0.6, 0.5).norm().item() == pytest.approx(0.5, abs=4 * math.sqrt(2) / 255)
    assert fooled_beyond(0.6, 0.7).norm().item() > 0.59

"""The contract of every noise: its draws, its radii and their inverse."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radii.smoothing import noise as noises
from radii.smoothing.addresses import generator
from radii.smoothing.noise import Gaussian, Noise, noisy_copies
from radii.smoothing.norms import L1, L2, LINF

FIELDS: dict[str, dict[str, Any]] = {"gaussian": {"sigma": 0.25}, "grid": {"sigma": 0.25}}
"""Parameters for the contract; a noise that is not here is made with its defaults."""


@pytest.fixture(params=noises.names())
def noise(request: pytest.FixtureRequest) -> Noise:
    return noises.create(request.param, **FIELDS.get(request.param, {}))


def draw(noise: Noise, seed: int, copies: int = 400) -> torch.Tensor:
    image = (5 * torch.arange(48) / 255).reshape(4, 4, 3)
    return noise.perturb(image, torch.empty(copies, 4, 4, 3), generator("cpu", "measure", seed))


def test_draws_depend_only_on_the_generator(noise: Noise) -> None:
    assert torch.equal(draw(noise, 1), draw(noise, 1))
    assert not torch.equal(draw(noise, 1), draw(noise, 2))


def test_draws_are_centred_on_the_image_and_fill_the_block(noise: Noise) -> None:
    out = torch.empty(400, 4, 4, 3)
    image = torch.full((4, 4, 3), 0.4)
    assert noise.perturb(image, out, generator("cpu", "measure", 0)) is out
    spread = float(out.std())
    assert spread > 0
    assert abs(float(out.mean()) - 0.4) < 5 * spread / out.numel() ** 0.5
    assert torch.equal(image, torch.full((4, 4, 3), 0.4))


def test_radius_and_probability_are_inverse(noise: Noise) -> None:
    for probability in (0.501, 0.6, 0.9, 0.99, 0.999):
        radius = float(noise.radius(probability))
        assert radius >= 0
        assert noise.probability_for(radius) == pytest.approx(probability, abs=1e-9)


def test_radii_grow_with_the_probability_and_are_negative_below_one_half(noise: Noise) -> None:
    radii = np.asarray(noise.radius(np.linspace(0.01, 0.999, 50)))
    assert (np.diff(radii) > 0).all()
    assert float(noise.radius(0.49)) < 0
    assert float(noise.radius(0.8, 0.1)) > float(noise.radius(0.8, 0.2)) == pytest.approx(float(noise.radius(0.8)))


def test_noise_describes_itself_and_its_norm(noise: Noise) -> None:
    described = noise.describe()
    assert noise.norm in (L1, L2, LINF)
    again = noises.create(described.pop("name"), **described)
    assert again == noise
    assert hash(again) == hash(noise)


@given(st.floats(0.0, 4.0), st.floats(0.01, 4.0))
def test_gaussian_radius_and_probability_are_inverse(radius: float, sigma: float) -> None:
    radius = min(radius, 4 * sigma)
    noise = Gaussian(sigma)
    assert noise.radius(noise.probability_for(radius)) == pytest.approx(radius, abs=1e-9 * sigma)


@given(st.floats(0.5, 0.9999), st.floats(0.1, 2.0))
def test_runner_up_with_all_the_rest_gives_the_default_radius(top: float, sigma: float) -> None:
    assert Gaussian(sigma).radius(top, 1 - top) == pytest.approx(Gaussian(sigma).radius(top), abs=1e-9)


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
def test_sigma_out_of_range_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma = .*, expected a "):
        Gaussian(sigma)


def test_copies_come_from_one_draw() -> None:
    images = torch.rand(2, 1, 3, 3)
    copies = noisy_copies(images, 4, 0.5, torch.Generator().manual_seed(0))
    noise = torch.randn((4, 2, 1, 3, 3), generator=torch.Generator().manual_seed(0))
    assert torch.equal(copies, noise * 0.5 + images)

"""Certificates of models whose exact radius is known, end to end: noise, forward pass, votes, bound."""

from typing import Any

import pytest
import torch
from scipy.special import ndtr
from torch import Tensor, nn

from radii import certifiers
from radii.certifiers import certify_image
from radii.engines import SmoothedClassifier
from radii.smoothing import noise as noises
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import Gaussian, Noise

SIGMA = 0.5
SHAPE = (3, 32, 32)
FEW_PIXELS = (1, 16, 16)
"""The shape of the image that every case certifies RUNS times: the truth does not depend on it."""
RUNS = 30
FAILURE = 0.05
MOST_FALSE = 7
"""Five deviations above the mean of 30 runs at failure 0.05."""

PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "fixed": [
        {"estimation": 1_000},
        {"estimation": 1_000, "bound": "top_two"},
        {"estimation": 1_000, "radius": 0.25},
    ],
    "prediction": [{"samples": 500}],
    "sequential": [{"radii": (0.0, 0.25, 0.5), "most_samples": 1_000}],
    "planned": [{"pilot": 100, "most_samples": 1_000}],
    "soft": [
        {"estimation": 500, "bound": "bernstein", "sharpness": 4.0},
        {"estimation": 500, "bound": "hoeffding"},
        {"estimation": 500, "bound": "betting", "sharpness": 1e6},
    ],
}
NOISES: dict[str, dict[str, Any]] = {"gaussian": {"sigma": SIGMA}, "grid": {"sigma": SIGMA}}
GREY = 128 / 255
CASES = [(name, fields) for name, cases in PARAMETERS.items() for fields in cases]


class Slabs(nn.Module):
    """Classes by the position of an image along one direction: below the first edge, between two, above the last."""

    direction: Tensor
    edges: Tensor

    def __init__(self, direction: Tensor, edges: list[float]) -> None:
        super().__init__()
        self.register_buffer("direction", direction.flatten() / direction.norm())
        self.register_buffer("edges", torch.tensor(edges))

    def forward(self, images: Tensor) -> Tensor:
        along = (images.flatten(1) - GREY) @ self.direction
        if len(self.edges) == 1:
            return torch.stack([self.edges[0] - along, along - self.edges[0]], 1)
        return nn.functional.one_hot(torch.bucketize(along, self.edges), len(self.edges) + 1).float()


def random_direction(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def grey_image(shape: tuple[int, ...]) -> Tensor:
    """Return an image that every noise takes, its place along any direction 0."""
    return torch.full(shape, 128).float().div_(255)


@pytest.fixture(scope="module")
def direction() -> Tensor:
    return random_direction(SHAPE)


@pytest.fixture(params=noises.names())
def noise(request: pytest.FixtureRequest) -> Noise:
    return noises.create(request.param, **NOISES[request.param])


@pytest.fixture(scope="module")
def grey() -> Tensor:
    return grey_image(SHAPE)


def certify_many(
    name: str, fields: dict[str, Any], base: nn.Module, classes: int, image: Tensor, noise: Noise
) -> list[Certificate]:
    classifier = SmoothedClassifier(base, noise=noise, classes=classes)
    certifier = certifiers.create(name, failure=FAILURE, **fields)
    return [certify_image(certifier, classifier, image, NoiseAddress(1, index)) for index in range(RUNS)]


def test_every_certifier_and_noise_is_tested() -> None:
    assert set(PARAMETERS) == set(certifiers.names())
    assert set(NOISES) == set(noises.names())


@pytest.mark.slow
@pytest.mark.parametrize("distance", [0.0, 0.25])
@pytest.mark.parametrize(("name", "fields"), CASES, ids=lambda case: case if isinstance(case, str) else str(case))
def test_radius_does_not_exceed_the_distance_to_a_plane(
    name: str, fields: dict[str, Any], distance: float, noise: Noise
) -> None:
    base = Slabs(random_direction(FEW_PIXELS), [-distance])
    found = certify_many(name, fields, base, 2, grey_image(FEW_PIXELS), noise)
    if distance == 0.0:
        false = [one for one in found if one.prediction != ABSTAIN]
    else:
        false = [one for one in found if one.prediction == 0 or one.radius > distance + 1e-6]
    assert len(false) <= MOST_FALSE


@pytest.mark.parametrize(
    ("name", "fields", "reach"),
    [
        ("fixed", {"estimation": 20_000}, 0.93),
        ("fixed", {"estimation": 20_000, "bound": "top_two"}, 0.93),
        ("planned", {"most_samples": 20_000}, 0.91),
        ("sequential", {"radii": (0.25, 0.47, 0.5), "most_samples": 20_000}, 0.93),
        ("soft", {"estimation": 20_000, "bound": "betting", "sharpness": 1e6}, 0.93),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_radius_approaches_the_distance_with_enough_samples(
    name: str, fields: dict[str, Any], reach: float, direction: Tensor, grey: Tensor, noise: Noise
) -> None:
    classifier = SmoothedClassifier(Slabs(direction, [-0.5]), noise=noise, classes=2)
    found = certify_image(certifiers.create(name, **fields), classifier, grey, NoiseAddress(0))
    assert found.prediction == 1
    assert reach * 0.5 < found.radius <= 0.5


def test_more_samples_give_larger_radii(direction: Tensor, grey: Tensor, noise: Noise) -> None:
    classifier = SmoothedClassifier(Slabs(direction, [-0.5]), noise=noise, classes=2)
    radii = [
        certify_image(certifiers.create("fixed", estimation=count), classifier, grey, NoiseAddress(0)).radius
        for count in (100, 1_000, 10_000)
    ]
    assert radii == sorted(radii)
    assert radii[0] < 0.9 * 0.5 < radii[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edges", "certified"),
    [([-0.3, 0.3], ABSTAIN), ([-0.6, 0.7], 1)],
    ids=["top class below one half", "above"],
)
def test_top_two_radius_does_not_exceed_the_exact_one(edges: list[float], certified: int, noise: Noise) -> None:
    """The bound `top_two` certifies by the runner-up's own probability, and no further."""
    below, above = ndtr(edges[0] / SIGMA), 1 - ndtr(edges[1] / SIGMA)
    truth = Gaussian(SIGMA).radius(1 - below - above, max(below, above))
    base, grey = Slabs(random_direction(FEW_PIXELS), edges), grey_image(FEW_PIXELS)
    both = certify_many("fixed", {"estimation": 1_000, "bound": "top_two"}, base, 3, grey, noise)
    assert sum(one.prediction not in (ABSTAIN, 1) or one.radius > truth for one in both) <= MOST_FALSE
    assert sum(one.prediction == 1 and one.radius > truth / 2 for one in both) > RUNS / 2
    top = certify_many("fixed", {"estimation": 1_000}, base, 3, grey, noise)
    assert [one.prediction for one in top] == [certified] * RUNS
    assert sum(one.radius < two.radius for one, two in zip(top, both, strict=True)) > 0.8 * RUNS


@pytest.mark.slow
def test_radius_is_in_pixel_units_before_normalisation(direction: Tensor, grey: Tensor, noise: Noise) -> None:
    """A standardising first layer moves no certificate."""

    class Scaled(Slabs):
        def forward(self, images: Tensor) -> Tensor:
            scaled = (images - 0.4) / 0.1
            return super().forward(scaled * 0.1 + 0.4)

    for base in (Slabs(direction, [-0.25]), Scaled(direction, [-0.25])):
        classifier = SmoothedClassifier(base, noise=noise, classes=2)
        found = certify_image(certifiers.create("fixed", estimation=10_000), classifier, grey, NoiseAddress(0))
        assert 0.2 < found.radius <= 0.25

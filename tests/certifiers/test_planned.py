"""The planned certifier: a pilot decides the number of fresh samples."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from radii import certifiers
from radii.certifiers.planned import Planned, plan
from radii.engines import SmoothedClassifier
from radii.smoothing import bounds
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Gaussian


class FixedVotes(SmoothedClassifier):
    """A fixed share of votes for class 1 in the pilot, and another one afterwards."""

    def __init__(self, pilot: float, later: float) -> None:
        self.noise, self.classes, self.batch_size = Gaussian(1.0), 2, 128
        self.shares = (pilot, later)
        self.draws: list[tuple[int, int]] = []

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        self.draws.append((noise.stage, samples))
        hits = round(samples * self.shares[noise.stage])
        return np.array([samples - hits, hits])


def test_bound_uses_only_fresh_samples() -> None:
    voter = FixedVotes(0.9, 0.8)
    found = Planned(tolerance=0.05).certify(voter, None, NoiseAddress(0))
    (pilot, (stage, samples)) = voter.draws
    assert pilot == (0, 200)
    assert stage == 1
    lower = bounds.binomial_lower(round(0.8 * samples), samples, 0.001)
    assert found.radius == Gaussian(1.0).radius(lower)
    assert (found.prediction, found.samples, sum(found.counts)) == (1, 200 + samples, samples)


def test_uncertifiable_images_use_only_the_pilot() -> None:
    class Undecided(FixedVotes):
        def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
            return np.array([samples - 2 * (samples // 3), samples // 3, samples // 3])

    undecided = Undecided(0.0, 0.0)
    undecided.classes = 3
    found = Planned().certify(undecided, None, NoiseAddress(0))
    assert (found.prediction, found.radius, found.samples) == (ABSTAIN, 0.0, 200)


@pytest.mark.parametrize("probability", [0.55, 0.7, 0.9, 0.99, 1.0])
def test_plan_keeps_the_tolerance(probability: float) -> None:
    def radius(samples: int) -> float:
        return float(Gaussian(1.0).radius(bounds.binomial_lower(round(probability * samples), samples, 0.001)))

    samples = plan(Gaussian(1.0), (probability, probability), 0.05, 100_000, 0.001)
    assert radius(samples) >= radius(100_000) - 0.055
    assert radius(int(samples * 0.7)) < radius(100_000) - 0.05


def test_plan_covers_its_interval() -> None:
    wide = plan(Gaussian(1.0), (0.6, 1.0), 0.02, 100_000, 0.001)
    assert wide >= max(plan(Gaussian(1.0), (p, p), 0.02, 100_000, 0.001) for p in (0.6, 0.7, 0.8, 0.9, 1.0))


def test_tolerance_is_in_units_of_the_radius(pixel: SmoothedClassifier) -> None:
    image = torch.full((1, 1, 1), 0.7)
    strict, loose = (Planned(tolerance=value).certify(pixel, image, NoiseAddress(0)) for value in (0.005, 0.05))
    full = certifiers.create("fixed").certify(pixel, image, NoiseAddress(0))
    assert loose.samples < strict.samples < full.samples
    assert full.radius - 0.05 < loose.radius
    assert full.radius - 0.01 < strict.radius


def test_zero_tolerance_uses_all_samples() -> None:
    assert plan(Gaussian(1.0), (0.7, 0.8), 0.0, 100_000, 0.001) == 100_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tolerance": -0.1}, "tolerance = -0.1, expected a number >= 0"),
        ({"pilot": 0}, "pilot = 0, expected a number >= 1"),
        ({"most_samples": 9}, "most_samples = 9 can never certify at failure 0.001.*smallest that can is 10"),
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certifiers.create("planned", **fields)

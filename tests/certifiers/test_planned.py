"""The planned certifier: a pilot decides the number of fresh samples."""

from typing import Any

import pytest
import torch

from radii import certifiers
from radii.certifiers import certify_image
from radii.certifiers.planned import Planned, plan
from radii.engines import SmoothedClassifier
from radii.smoothing import bounds
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Gaussian
from radii.smoothing.questions import Votes
from tools.voters import FakeVoter


def test_bound_uses_only_fresh_samples() -> None:
    """Class 1 has 0.9 of the votes in the pilot, and 0.8 afterwards."""

    def votes(question: Votes) -> tuple[int, int]:
        hits = round(question.count * (0.9, 0.8)[question.stage])
        return question.count - hits, hits

    voter = FakeVoter(votes)
    found = certify_image(Planned(tolerance=0.05), voter, None, NoiseAddress(0))
    pilot, later = voter.asked
    samples = later.count
    assert pilot == Votes(0, 0, 200)
    assert later == Votes(1, 0, samples)
    lower = bounds.binomial_lower(round(0.8 * samples), samples, 0.001)
    assert found.radius == Gaussian(1.0).radius(lower)
    assert (found.prediction, found.samples, sum(found.counts)) == (1, 200 + samples, samples)


def test_uncertifiable_images_use_only_the_pilot() -> None:
    def votes(question: Votes) -> tuple[int, int, int]:
        third = question.count // 3
        return question.count - 2 * third, third, third

    found = certify_image(Planned(), FakeVoter(votes, classes=3), None, NoiseAddress(0))
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
    strict, loose = (certify_image(Planned(tolerance=value), pixel, image, NoiseAddress(0)) for value in (0.005, 0.05))
    full = certify_image(certifiers.create("fixed"), pixel, image, NoiseAddress(0))
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

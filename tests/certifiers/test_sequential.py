"""The sequential procedure: which radius it reports, what it draws, and what it saves."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

from radii import certifiers
from radii.certifiers.base import Voter
from radii.certifiers.sequential import Sequential
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.classifier import SmoothedClassifier
from radii.smoothing.noise import Gaussian

GRID = (0.0, 0.05, 0.1, 0.15, 0.2)


def image(place: float) -> Tensor:
    return torch.full((1, 1, 1), place)


class Diary(SmoothedClassifier):
    """Writes down every draw that is asked of it; its first classes get all votes, one after the other."""

    def __init__(self, *winners: int) -> None:
        self.noise, self.classes, self.batch_size = Gaussian(0.25), 3, 128
        self.winners = list(winners)
        self.draws: list[tuple[int, int]] = []

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        self.draws.append((noise.stage, samples))
        winner = self.winners[min(len(self.draws), len(self.winners)) - 1]
        return np.where(np.arange(3) == winner, samples, 0)


def test_a_stage_for_every_look_after_the_pilots() -> None:
    diary = Diary(2)
    found = Sequential(radii=(0.6,)).certify(diary, None, NoiseAddress(0))
    stages, sizes = zip(*diary.draws, strict=True)
    assert stages == tuple(range(len(stages)))
    assert sizes[:4] == (64, 64, 128, 128)
    assert (found.prediction, found.radius, found.samples) == (2, 0.6, sum(sizes))
    assert found.counts == (0, 0, sum(sizes[1:]))


def test_a_known_label_needs_no_pilot() -> None:
    diary = Diary(1)
    found = Sequential().certify(diary, None, NoiseAddress(0), label=1)
    assert diary.draws == [(1, 64)]
    assert (found.prediction, found.radius, found.samples) == (1, 0.0, 64)


def test_a_wrong_label_is_given_up_at_once() -> None:
    found = Sequential(radii=(0.0, 0.25)).certify(Diary(1), None, NoiseAddress(0), label=0)
    assert (found.prediction, found.radius, found.samples) == (ABSTAIN, 0.0, 64)


def test_the_pilot_is_discarded() -> None:
    """It picks class 0; the fresh samples know nothing of it."""
    found = Sequential().certify(Diary(0, 1), None, NoiseAddress(0))
    assert (found.prediction, found.counts) == (ABSTAIN, (0, 64, 0))


def test_radii_are_reported_as_they_were_stated(pixel: SmoothedClassifier) -> None:
    procedure = Sequential(radii=GRID, most_samples=20_000)
    for place, sure in [(0.52, 0.0), (0.62, 0.1), (0.68, 0.15), (0.9, 0.2)]:
        found = procedure.certify(pixel, image(place), NoiseAddress(1), label=0)
        assert found.prediction == 0
        assert found.radius == sure
    assert procedure.certify(pixel, image(0.9), NoiseAddress(1)).samples < 1_000


def test_the_smallest_radius_not_reached_is_an_abstention(pixel: SmoothedClassifier) -> None:
    found = Sequential(radii=(0.2, 0.3)).certify(pixel, image(0.6), NoiseAddress(1), label=0)
    assert (found.prediction, found.radius) == (ABSTAIN, 0.0)


@pytest.mark.parametrize("place", [0.5, 0.52, 0.55, 0.6, 0.63, 0.7])
def test_giving_up_never_certifies_more(place: float, pixel: SmoothedClassifier) -> None:
    patient, hasty = (Sequential(radii=GRID, most_samples=2_000, futility=futility) for futility in (0.0, 0.2))
    saved = 0
    for index in range(30):
        full = patient.certify(pixel, image(place), NoiseAddress(2, index), label=0)
        quick = hasty.certify(pixel, image(place), NoiseAddress(2, index), label=0)
        assert quick.samples <= full.samples
        assert quick.radius <= full.radius
        assert quick.prediction in (ABSTAIN, full.prediction)
        saved += full.samples - quick.samples
    assert saved > 0


def test_images_in_any_order(pixel: SmoothedClassifier) -> None:
    procedure = Sequential(radii=GRID, most_samples=2_000)
    places = {index: 0.5 + index / 100 for index in range(20)}

    def certify(order: list[int]) -> list[Any]:
        found = {index: procedure.certify(pixel, image(places[index]), NoiseAddress(3, index)) for index in order}
        return [(found[index], found[index].counts) for index in sorted(order)]

    assert certify(list(range(20))) == certify(list(reversed(range(20))))


def test_single_radius_costs_a_hundredth(dice: Callable[..., Voter]) -> None:
    """Labels whose probabilities spread as on real data: radii up to two sigma, a third below one half."""
    rng = np.random.default_rng(0)
    radii = np.where(rng.random(2_000) < 0.35, rng.uniform(-2, 0, 2_000), rng.uniform(0, 3, 2_000))
    procedure = Sequential(radii=(0.5,))
    found = [
        procedure.certify(dice(float(ndtr(radius)), float(1 - ndtr(radius)), seed=index), None, NoiseAddress(0), 0)
        for index, radius in enumerate(radii)
    ]
    assert np.mean([one.samples for one in found]) < 1_300
    certified = np.array([one.prediction == 0 for one in found])
    fixed = radii >= ndtri(ndtr(0.5) + 0.0045)
    assert (certified != fixed).mean() < 0.004


@pytest.mark.parametrize("given", [[0.5, 0.25, 0.5], (0.25, 0.5), np.array([0.5, 0.25])])
def test_radii_are_put_in_order(given: Any) -> None:
    procedure = certifiers.create("sequential", radii=given)
    assert isinstance(procedure, Sequential)
    assert procedure.radii == (0.25, 0.5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"radii": ()}, r"radii = \(\), expected one or more numbers >= 0"),
        ({"radii": (-0.1, 0.5)}, "radii = .*expected one or more numbers >= 0"),
        ({"radii": (0.1, float("nan"))}, "radii = .*each a finite number"),
        ({"radii": ("0.5",)}, "radii = .*each a number"),
        ({"radii": 0.5}, "radii = 0.5, expected a list"),
        ({"radii": "0.5"}, "radii = '0.5', expected a list"),
        ({"most_samples": 9}, "most_samples = 9 can never certify at failure 0.001.*smallest that can is 10"),
        ({"most_samples": 0}, "most_samples = 0, expected a number >= 1"),
        ({"pilot": 0}, "pilot = 0, expected a number >= 1"),
        ({"futility": 0.5}, "futility = 0.5, expected a number >= 0 and < 0.5"),
        ({"failure": 0}, "failure = 0, expected a number > 0 and < 1"),
    ],
)
def test_refuses_fields_out_of_range(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certifiers.create("sequential", **fields)


def test_refuses_a_radius_that_no_votes_reach_before_drawing() -> None:
    diary = Diary(0)
    with pytest.raises(ValueError, match=r"radius 0\.7 can never be certified .* the largest that can is 0\.6158$"):
        Sequential(radii=(0.0, 0.7), most_samples=1_000).certify(diary, None, NoiseAddress(0))
    assert diary.draws == []


def test_the_largest_radius_can_be_reached() -> None:
    diary = Diary(0)
    found = Sequential(radii=(0.6158,), most_samples=1_000).certify(diary, None, NoiseAddress(0))
    assert (found.prediction, found.radius, found.samples) == (0, 0.6158, 1_064)


def test_refuses_a_label_that_is_no_class() -> None:
    with pytest.raises(ValueError, match="label = 3, expected a class from 0 to 2"):
        Sequential().certify(Diary(0), None, NoiseAddress(0), label=3)

"""Cohen's CERTIFY: published values, the runner-up's bound, and sampling that stops when the decision is certain."""

from typing import Any

import pytest
import torch

from radii import certifiers
from radii.certifiers import certify_image
from radii.certifiers.fixed import Fixed
from radii.engines import SmoothedClassifier
from radii.smoothing import bounds
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Gaussian
from tools.voters import FakeVoter


def certify(certifier: Fixed, *rounds: tuple[int, ...]) -> tuple[int, float]:
    """Certify from the counts of every stage, first those of the selection."""
    voter = FakeVoter(lambda question: rounds[question.stage], classes=len(rounds[0]))
    found = certify_image(certifier, voter, None, NoiseAddress(0))
    assert found.samples == sum(map(sum, rounds))
    assert found.counts == rounds[-1]
    assert found.certifier is certifier
    return found.prediction, found.radius


@pytest.mark.parametrize(
    ("hits", "lower"),
    [(100_000, 0.9999309248330094), (99_000, 0.9889893403774748), (51_000, 0.5051093492440559)],
)
def test_published_values(hits: int, lower: float) -> None:
    prediction, radius = certify(Fixed(), (0, 100), (100_000 - hits, hits))
    assert prediction == 1
    assert radius == pytest.approx(Gaussian(1.0).radius(lower), rel=1e-10)


@pytest.mark.parametrize(("hits", "prediction"), [(50_490, 1), (50_489, ABSTAIN)])
def test_abstains_below_one_half(hits: int, prediction: int) -> None:
    found = certify(Fixed(), (0, 100), (100_000 - hits, hits))
    assert found[0] == prediction
    assert found[1] < 1e-4


def test_selection_ties_go_to_the_lowest_class() -> None:
    assert certify(Fixed(estimation=100), (20, 40, 40), (0, 0, 100)) == (ABSTAIN, 0.0)
    assert certify(Fixed(estimation=100), (20, 40, 40), (0, 100, 0))[0] == 1


def test_top_two_certifies_below_one_half() -> None:
    counts = (27_500, 45_000, 27_500)
    assert certify(Fixed(), (0, 100, 0), counts)[0] == ABSTAIN
    prediction, radius = certify(Fixed(bound="top_two"), (0, 100, 0), counts)
    assert prediction == 1
    assert radius == pytest.approx(0.223, abs=1e-3)


def test_top_two_bounds_the_runner_up_by_the_rest_where_that_is_less() -> None:
    prediction, radius = certify(Fixed(bound="top_two"), (0, 100), (0, 100_000))
    assert prediction == 1
    assert radius == pytest.approx(Gaussian(1.0).radius(bounds.binomial_lower(100_000, 100_000, 0.0005)))


def test_top_two_abstains_where_another_class_leads() -> None:
    assert certify(Fixed(bound="top_two"), (0, 100, 0), (60_000, 30_000, 10_000)) == (ABSTAIN, 0.0)


@pytest.mark.parametrize("bound", ["top", "top_two"])
@pytest.mark.parametrize("place", [0.5, 0.55, 0.6, 0.62, 0.65, 0.8])
def test_early_decision_of_a_radius_equals_that_of_all_samples(
    bound: str, place: float, pixel: SmoothedClassifier
) -> None:
    image, saved = torch.full((1, 1, 1), place), 0
    for index in range(10):
        noise = NoiseAddress(5, index)
        full = certify_image(Fixed(estimation=2_000, bound=bound), pixel, image, noise)
        short = certify_image(Fixed(estimation=2_000, bound=bound, radius=0.1), pixel, image, noise)
        certified = full.prediction != ABSTAIN and full.radius >= 0.1
        assert short.prediction == (full.prediction if certified else ABSTAIN)
        assert short.radius == (0.1 if certified else 0.0)
        assert short.samples <= full.samples
        blocks = -(-sum(short.counts) // 128)
        drawn = pixel.votes(image, min(2_000, 128 * blocks), noise.at(1))
        assert short.counts == tuple(drawn)
        saved += full.samples - short.samples
    assert saved > 0


def test_sampling_stops_at_the_first_block_that_decides() -> None:
    """All misses: stops as soon as too few samples remain."""
    misses = FakeVoter(lambda question: (0, question.count) if question.stage == 0 else (question.count, 0))
    certifier = Fixed(estimation=1_000, radius=0.0)
    fewest = next(hits for hits in range(1_001) if bounds.binomial_lower(hits, 1_000, 0.001) >= 0.5)
    found = certify_image(certifier, misses, None, NoiseAddress(0))
    assert found.samples == 100 + 128 * -(-(1_000 - fewest + 1) // 128)


def test_unreachable_radius_is_refused(pixel: SmoothedClassifier) -> None:
    image = torch.full((1, 1, 1), 0.9)
    largest = Gaussian(0.25).radius(bounds.binomial_lower(1_000, 1_000, 0.001))
    with pytest.raises(ValueError, match=r"radius 0\.7 can never be certified .* the largest that can is 0\.6158$"):
        certify_image(Fixed(estimation=1_000, radius=0.7), pixel, image, NoiseAddress(0))
    assert largest == pytest.approx(0.61581, abs=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"estimation": 9}, "estimation = 9 can never certify at failure 0.001.*smallest that can is 10"),
        ({"estimation": 10, "bound": "top_two"}, "estimation = 10 can never certify.*smallest that can is 11"),
        ({"estimation": 0}, "estimation = 0, expected a number >= 1"),
        ({"selection": 0}, "selection = 0, expected a number >= 1"),
        ({"failure": 0.0}, "failure = 0.0, expected a number > 0 and < 1"),
        ({"failure": 1.0}, "failure = 1.0, expected a number > 0 and < 1"),
        ({"bound": "both"}, "bound = 'both', expected one of 'top', 'top_two'"),
        ({"radius": -0.1}, "radius = -0.1, expected a number >= 0"),
        ({"estimation": 1e5}, "estimation = 100000.0, expected a whole number"),
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certifiers.create("fixed", **fields)

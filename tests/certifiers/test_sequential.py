"""The sequential certifier: which radius it certifies, what it samples, and how many samples it saves."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

from radii import certifiers
from radii.certifiers import certify_image
from radii.certifiers.base import About, TimeUp, Voter
from radii.certifiers.sequential import Sequential
from radii.engines import SmoothedClassifier
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import Gaussian
from radii.smoothing.questions import Task, Votes
from tools.voters import FakeVoter, random_voter

GRID = (0.0, 0.05, 0.1, 0.15, 0.2)


def image(place: float) -> Tensor:
    return torch.full((1, 1, 1), place)


def unanimous(*winners: int) -> FakeVoter:
    """Make a voter of three classes: the first question gets all votes for the first of `winners`, and so on."""
    coming = list(winners)

    def votes(question: Votes) -> NDArray[np.int64]:
        winner = coming.pop(0) if len(coming) > 1 else coming[0]
        return np.where(np.arange(3) == winner, question.count, 0)

    return FakeVoter(votes, classes=3, noise=Gaussian(0.25))


def certify(certifier: Sequential, voter: Voter, label: int | None = None) -> Certificate:
    return certify_image(certifier, voter, None, NoiseAddress(0), label)


def test_every_look_has_its_own_stage_after_the_pilot() -> None:
    recorder = unanimous(2)
    found = certify(Sequential(radii=(0.6,)), recorder)
    stages, sizes = zip(*((question.stage, question.count) for question in recorder.asked), strict=True)
    assert stages == tuple(range(len(stages)))
    assert sizes[:4] == (64, 64, 128, 128)
    assert (found.prediction, found.radius, found.samples) == (2, 0.6, sum(sizes))
    assert found.counts == (0, 0, sum(sizes[1:]))


def test_known_label_needs_no_pilot() -> None:
    recorder = unanimous(1)
    found = certify(Sequential(), recorder, label=1)
    assert recorder.asked == [Votes(1, 0, 64)]
    assert (found.prediction, found.radius, found.samples) == (1, 0.0, 64)


def test_wrong_label_stops_at_the_first_look() -> None:
    found = certify(Sequential(radii=(0.0, 0.25)), unanimous(1), label=0)
    assert (found.prediction, found.radius, found.samples) == (ABSTAIN, 0.0, 64)


def test_pilot_samples_are_discarded() -> None:
    """The pilot selects class 0; the fresh samples all vote for class 1."""
    found = certify(Sequential(), unanimous(0, 1))
    assert (found.prediction, found.counts) == (ABSTAIN, (0, 64, 0))


def test_certified_radius_is_one_of_the_given_radii(pixel: SmoothedClassifier) -> None:
    certifier = Sequential(radii=GRID, most_samples=20_000)
    for place, sure in [(0.52, 0.0), (0.62, 0.1), (0.68, 0.15), (0.9, 0.2)]:
        found = certify_image(certifier, pixel, image(place), NoiseAddress(1), label=0)
        assert found.prediction == 0
        assert found.radius == sure
    assert certify_image(certifier, pixel, image(0.9), NoiseAddress(1)).samples < 1_000


def test_abstains_where_the_smallest_radius_is_not_certified(pixel: SmoothedClassifier) -> None:
    found = certify_image(Sequential(radii=(0.2, 0.3)), pixel, image(0.6), NoiseAddress(1), label=0)
    assert (found.prediction, found.radius) == (ABSTAIN, 0.0)


@pytest.mark.parametrize("place", [0.5, 0.52, 0.55, 0.6, 0.63, 0.7])
def test_futility_never_certifies_more(place: float, pixel: SmoothedClassifier) -> None:
    patient, hasty = (Sequential(radii=GRID, most_samples=2_000, futility=futility) for futility in (0.0, 0.2))
    saved = 0
    for index in range(30):
        full = certify_image(patient, pixel, image(place), NoiseAddress(2, index), label=0)
        quick = certify_image(hasty, pixel, image(place), NoiseAddress(2, index), label=0)
        assert quick.samples <= full.samples
        assert quick.radius <= full.radius
        assert quick.prediction in (ABSTAIN, full.prediction)
        saved += full.samples - quick.samples
    assert saved > 0


def test_certificates_do_not_depend_on_the_order_of_images(pixel: SmoothedClassifier) -> None:
    certifier = Sequential(radii=GRID, most_samples=2_000)
    places = {index: 0.5 + index / 100 for index in range(20)}

    def certify(order: list[int]) -> list[Any]:
        found = {
            index: certify_image(certifier, pixel, image(places[index]), NoiseAddress(3, index)) for index in order
        }
        return [(found[index], found[index].counts) for index in sorted(order)]

    assert certify(list(range(20))) == certify(list(reversed(range(20))))


def test_single_radius_needs_about_a_hundredth_of_the_samples() -> None:
    """Label probabilities distributed as on real data: radii up to two sigma, a third below one half."""
    rng = np.random.default_rng(0)
    radii = np.where(rng.random(2_000) < 0.35, rng.uniform(-2, 0, 2_000), rng.uniform(0, 3, 2_000))
    certifier = Sequential(radii=(0.5,))
    found = [
        certify(certifier, random_voter(float(ndtr(radius)), float(1 - ndtr(radius)), seed=index), 0)
        for index, radius in enumerate(radii)
    ]
    assert np.mean([one.samples for one in found]) < 1_300
    certified = np.array([one.prediction == 0 for one in found])
    fixed = radii >= ndtri(ndtr(0.5) + 0.0045)
    assert (certified != fixed).mean() < 0.004


@pytest.mark.parametrize("given", [[0.5, 0.25, 0.5], (0.25, 0.5), np.array([0.5, 0.25])])
def test_radii_are_sorted_and_unique(given: Any) -> None:
    certifier = certifiers.create("sequential", radii=given)
    assert isinstance(certifier, Sequential)
    assert certifier.radii == (0.25, 0.5)


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
def test_fields_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certifiers.create("sequential", **fields)


def test_unreachable_radius_is_refused_before_sampling() -> None:
    recorder = unanimous(0)
    with pytest.raises(ValueError, match=r"radius 0\.7 can never be certified .* the largest that can is 0\.6158$"):
        certify(Sequential(radii=(0.0, 0.7), most_samples=1_000), recorder)
    assert recorder.asked == []


def test_largest_reachable_radius_is_certified() -> None:
    recorder = unanimous(0)
    found = certify(Sequential(radii=(0.6158,), most_samples=1_000), recorder)
    assert (found.prediction, found.radius, found.samples) == (0, 0.6158, 1_064)


def test_label_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="label = 3, expected a class from 0 to 2"):
        certify(Sequential(), unanimous(0), label=3)


def ended_at(certifier: Sequential, voter: FakeVoter, looks: int) -> Certificate:
    """Certify with a deadline after so many questions."""
    steps = certifier.certify(About(voter.noise, voter.classes, voter.batch_size))
    question = next(steps)
    for _ in range(looks):
        question = steps.send(voter.count([Task(image(0.5), NoiseAddress(0), question)])[0])
    with pytest.raises(StopIteration) as stopped:
        steps.throw(TimeUp())
    certificate: Certificate = stopped.value.value
    return certificate


def test_deadline_keeps_what_is_proven_by_then() -> None:
    certifier = Sequential(radii=(0.0, 0.2, 0.6))
    radii = [ended_at(certifier, unanimous(2), looks).radius for looks in range(1, 6)]
    assert radii == sorted(radii)
    assert (radii[0], radii[1], radii[-1]) == (0.0, 0.0, 0.2)
    assert ended_at(certifier, unanimous(2), 1).prediction == ABSTAIN
    assert ended_at(certifier, unanimous(2), 2).prediction == 2
    counts = np.array(ended_at(certifier, unanimous(2), 4).counts)
    assert certifier.possible_radii(counts, 64 + int(counts.sum()), 2, Gaussian(0.25)) == (0.2,)


def test_deadline_before_the_pilot_ends_proves_nothing() -> None:
    steps = Sequential().certify(About(Gaussian(0.25), 3, 128))
    next(steps)
    with pytest.raises(TimeUp):
        steps.throw(TimeUp())

"""Soft-RS: the bound of the mean probability, and the classifier that it certifies."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from radii import certifiers
from radii.certifiers import certify_image
from radii.certifiers.soft import Soft
from radii.engines import SmoothedClassifier
from radii.smoothing import bounds
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.betting import betting_lower
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import Gaussian
from radii.smoothing.questions import Probabilities
from tools.voters import FakeVoter


def certify(values: NDArray[np.float64], **fields: Any) -> Certificate:
    """Certify from the probabilities of class 1 of two."""

    def answer(question: Probabilities) -> NDArray[np.float64]:
        rows = np.stack([1 - values, values], 1)[: question.count]
        return rows.sum(0) if question.label is None else rows[:, question.label]

    return certify_image(Soft(estimation=len(values), **fields), FakeVoter(answer), None, NoiseAddress(0))


@pytest.mark.parametrize(("bound", "radius"), [("bernstein", 3.57167), ("hoeffding", 2.51945)])
def test_published_values(bound: str, radius: float) -> None:
    found = certify(np.ones(100_000), bound=bound)
    assert (found.prediction, found.samples, found.counts) == (1, 100_100, ())
    assert found.radius == pytest.approx(radius, abs=5e-6)


def test_bernstein_by_its_formula() -> None:
    values = np.random.default_rng(0).beta(9, 1, 1_000)
    weight = np.log(2 / 0.001)
    lower = values.mean() - np.sqrt(2 * values.var(ddof=1) * weight / 1_000) - 7 * weight / (3 * 999)
    assert certify(values).radius == pytest.approx(Gaussian(1.0).radius(lower), rel=1e-10)


def test_betting_uses_the_values_in_order() -> None:
    values = np.random.default_rng(1).beta(9, 1, 500)
    expected = Gaussian(1.0).radius(betting_lower(values, 0.001))
    assert certify(values, bound="betting").radius == pytest.approx(expected)
    assert certify(values[::-1], bound="betting").radius != pytest.approx(expected)


@pytest.mark.parametrize("bound", ["bernstein", "hoeffding", "betting"])
def test_abstains_below_one_half(bound: str) -> None:
    found = certify(np.where(np.arange(1_000) % 25 < 13, 1.0, 0.0), bound=bound)
    assert (found.prediction, found.radius) == (ABSTAIN, 0.0)


def test_prediction_is_the_class_of_the_largest_mean_probability() -> None:
    """Class 1 has most votes, class 0 the largest mean probability."""
    values = np.where(np.arange(1_000) % 5 < 3, 0.51, 0.0)
    assert certify(values).prediction == 0


def test_large_sharpness_approaches_the_votes(pixel: SmoothedClassifier) -> None:
    image, noise = torch.full((1, 1, 1), 0.8), NoiseAddress(0)
    found = certify_image(Soft(estimation=2_000, sharpness=1e9, bound="hoeffding"), pixel, image, noise)
    share = pixel.votes(image, 2_000, noise.at(1))[0] / 2_000
    assert found.radius == pytest.approx(Gaussian(0.25).radius(bounds.hoeffding_lower(share, 2_000, 0.001)))


@pytest.mark.parametrize(("bound", "fewest"), [("bernstein", 37), ("hoeffding", 14), ("betting", 12)])
def test_fewest_samples(bound: str, fewest: int) -> None:
    Soft(estimation=fewest, bound=bound)
    with pytest.raises(ValueError, match=f"estimation = {fewest - 1} can never certify.*smallest that can is {fewest}"):
        Soft(estimation=fewest - 1, bound=bound)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sharpness": 0.0}, "sharpness = 0.0, expected a number > 0"),
        ({"bound": "top"}, "bound = 'top', expected one of 'bernstein', 'hoeffding', 'betting'"),
        ({"selection": 0}, "selection = 0, expected a number >= 1"),
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certifiers.create("soft", **fields)


def test_whole_number_for_a_float_is_the_same_setting() -> None:
    """Their certificates are one file, which the other one continues."""
    assert json.dumps(asdict(Soft(sharpness=4))) == json.dumps(asdict(Soft(sharpness=4.0)))

"""Cohen's PREDICT: the class or an abstention."""

import pytest

from radii import certifiers
from radii.certifiers import certify_image
from radii.certifiers.prediction import Prediction
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from tools.voters import FakeVoter


def predict(*counts: int) -> Certificate:
    voter = FakeVoter(lambda _: counts, classes=len(counts))
    return certify_image(Prediction(samples=sum(counts)), voter, None, NoiseAddress(0))


@pytest.mark.parametrize(("samples", "fewest"), [(100, 67), (1_000, 553)])
def test_published_decisions(samples: int, fewest: int) -> None:
    assert predict(samples - fewest, fewest).prediction == 1
    assert predict(samples - fewest + 1, fewest - 1).prediction == ABSTAIN


def test_only_the_top_two_classes_are_compared() -> None:
    assert predict(300, 0, 20, 500).prediction == 3
    assert predict(0, 480, 500, 20).prediction == ABSTAIN


def test_certificate() -> None:
    found = predict(0, 1_000)
    assert (found.prediction, found.radius, found.samples, found.counts) == (1, 0.0, 1_000, (0, 1_000))


def test_ten_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="samples = 10 can never certify at failure 0.001.*smallest that can is 11"):
        certifiers.create("prediction", samples=10)

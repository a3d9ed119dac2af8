"""Forecasts: how long votes will take, and how many images fit into some minutes."""

import pytest
import torch

from radii.certification.certify import Certification
from radii.certifiers.base import Certifier
from radii.certifiers.fixed import Fixed
from radii.certifiers.sequential import Sequential
from radii.certifiers.soft import Soft
from radii.datasets import samples_of
from radii.engines import SmoothedClassifier
from radii.estimate import Estimate
from radii.workers.forecast import every_within


def certification(certifier: Certifier) -> Certification:
    """Certify images of one bright class by a linear classifier."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    weights = {"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.tensor([-2.0, 2.0])}
    model[1].load_state_dict(weights)
    images, labels = torch.full((40, 1, 2, 2), 0.9), torch.zeros(40, dtype=torch.int64)
    classifier = SmoothedClassifier(model, sigma=0.25, classes=2)
    return Certification(classifier=classifier, samples=samples_of((images, labels)), certifier=certifier)


def test_more_samples_take_longer_and_easy_images_are_quick() -> None:
    few, many, sequential = (
        certification(certifier).forecast(range(40))
        for certifier in (Fixed(estimation=1000), Fixed(estimation=100_000), Sequential(radii=(0.0, 0.25)))
    )
    assert few is not None
    assert many is not None
    assert sequential is not None
    for estimate in (few, many, sequential):
        assert 0 < estimate.low <= estimate.seconds <= estimate.high
    assert many.seconds > 10 * few.seconds
    assert sequential.seconds < many.seconds / 10


def test_probabilities_are_simulated_and_no_images_take_no_time() -> None:
    assert certification(Soft()).forecast(range(40)) is not None
    assert certification(Fixed()).forecast([]) == Estimate(0.0, 0.0, 0.0)


def test_forecasts_draw_no_noise_of_the_certificates() -> None:
    timed, untimed = certification(Fixed(estimation=500)), certification(Fixed(estimation=500))
    timed.forecast(range(40))
    rows = [[row.counts for row in each.rows([0, 7])] for each in (timed, untimed)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("seconds", "images", "minutes", "every"),
    [(0.001, 1000, 1.0, 1), (1.0, 1000, 1.0, 20), (1.0, 50_000, 1.0, 1000), (1e6, 30, 1.0, 30), (54.0, 2, 1.0, 2)],
)
def test_every_nth_image_fits_the_minutes(seconds: float, images: int, minutes: float, every: int) -> None:
    chosen = every_within(Estimate(seconds, seconds, seconds), images, minutes, workers=1)
    assert chosen == every
    assert len(range(0, images, chosen)) * seconds <= 60 * minutes or chosen == images
    assert isinstance(chosen, int)

"""Attacks inside the certified radii of a trained model change no certified prediction."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import radii
from radii import datasets
from radii.engines import SmoothedClassifier
from radii.objectives.base import smoothed_loss
from radii.runs.recipe import Recipe, Training
from radii.smoothing.addresses import generator
from radii.smoothing.attack import ascent, l2_ball
from radii.smoothing.forward import frozen, logits_of
from radii.smoothing.noise import noise_like
from radii.training.loop import train

pytestmark = pytest.mark.stress


@pytest.fixture(scope="module")
def smoothed(tmp_path_factory: pytest.TempPathFactory) -> SmoothedClassifier:
    training = Training(epochs=10, images_per_step=64, learning_rate=0.1, schedule="one_cycle")
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training)
    return radii.load(train(recipe, Path(tmp_path_factory.mktemp("runs")) / "digits"), engine="torch")


def attacked(smoothed: SmoothedClassifier, image: Tensor, label: int, radius: float, steps: int) -> Tensor:
    """The result of SmoothAdv's attack, projected to the l2 ball and to pixels in [0, 1]."""
    images, labels = image[None], torch.tensor([label])
    noise = noise_like(images, 64, smoothed.sigma, generator("cpu", "measure", 7))
    ball = l2_ball(images, radius)
    with frozen(smoothed.base):
        *_, found = ascent(
            images,
            lambda points: smoothed_loss(logits_of(smoothed.base, points + noise), labels).sum(),
            steps=steps,
            step_size=2 * radius / steps if steps <= 10 else radius / 4,
            project=lambda points: ball(points.clamp(0, 1)),
        )
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [10, 100])
def test_attacks_inside_the_radius_do_not_change_the_prediction(smoothed: SmoothedClassifier, steps: int) -> None:
    test = datasets.create("digits").split("test")
    certified, is_effective = 0, False
    for index in range(0, 60, 3):
        image, label = test.batch(torch.tensor([index]))[0], int(test.labels[index])
        proof = radii.certify(smoothed, image, seed=index, estimation=2_000)
        if proof.prediction != label or proof.radius == 0:
            continue
        certified += 1
        inside = attacked(smoothed, image, label, proof.radius, steps)
        assert float((inside - image).norm()) <= proof.radius * (1 + 1e-5)
        assert radii.predict(smoothed, inside, seed=1_000 + index).prediction in (label, radii.ABSTAIN)
        if not is_effective:  # with eight times the radius, it must change a prediction: one is enough
            far = attacked(smoothed, image, label, 8 * proof.radius, steps)
            is_effective = radii.predict(smoothed, far, seed=2_000 + index).prediction not in (label, radii.ABSTAIN)
    assert certified >= 10
    assert is_effective

"""Answers of one noisy pass each."""

import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor, nn

import radii
from radii.certification.one_pass import answer_once
from radii.errors import ParameterError
from radii.smoothing import noise as noises


class Coin(nn.Module):
    """Two classes, by the sign of the noise of the first pixel."""

    def forward(self, images: Tensor) -> Tensor:
        above = images.flatten(1)[:, :1] - 0.5
        return torch.cat([above, -above], 1)


SMOOTHED = radii.SmoothedClassifier(Coin(), sigma=0.25, classes=2, names=("up", "down"))
IMAGE = torch.full((1, 2, 2), 0.75)


def test_answers_have_the_probability_of_one_noisy_copy() -> None:
    answers = radii.predict_once(SMOOTHED, [IMAGE] * 2_000)
    up = sum(answer.name == "up" for answer in answers)
    assert binomtest(up, 2_000, 0.8413447).pvalue > 1e-6
    assert len({answer.seed for answer in answers}) == 2_000, "one image, asked again, gets fresh noise"


def test_a_revealed_seed_gives_the_answer_again() -> None:
    answers = radii.predict_once(SMOOTHED, torch.full((40, 1, 2, 2), 0.5))
    assert 0 < sum(answer.prediction for answer in answers) < 40
    again = [answer_once(SMOOTHED, [torch.full((1, 2, 2), 0.5)], [answer.seed])[0] for answer in answers]
    assert again == answers


def test_images_of_several_sizes_keep_their_order() -> None:
    sure = radii.SmoothedClassifier(Coin(), sigma=0.01, classes=2)
    images = [torch.ones(1, 2, 2), torch.zeros(1, 3, 3), torch.zeros(1, 2, 2), torch.ones(1, 3, 3)]
    assert [answer.prediction for answer in radii.predict_once(sure, images)] == [0, 1, 1, 0]


def test_seed_is_not_printed() -> None:
    answer = radii.predict_once(SMOOTHED, IMAGE)
    assert str(answer.seed) not in repr(answer)


def test_noise_without_a_bound_is_refused() -> None:
    class Unbounded(type(noises.create("gaussian", sigma=0.25))):  # type: ignore[misc]
        probability_after = noises.Noise.probability_after

    classifier = radii.SmoothedClassifier(Coin(), noise=Unbounded(sigma=0.25), classes=2)
    with pytest.raises(ParameterError, match="no bound for one noisy pass"):
        radii.predict_once(classifier, IMAGE)


@pytest.mark.parametrize("image", [torch.full((1, 2, 2), 2.0), torch.zeros(2, 2), "a.png"])
def test_what_is_no_image_is_refused(image: object) -> None:
    with pytest.raises(ValueError, match="image"):
        radii.predict_once(SMOOTHED, image)


def test_a_model_that_is_not_smoothed_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a radii.SmoothedClassifier"):
        radii.predict_once(Coin(), IMAGE)  # type: ignore[arg-type]

"""Opening a run: the images that its engine is compared on, and the effect of the comparison."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import radii
from radii.certification import load as loading
from radii.certification.load import open_run
from radii.datasets import spread_images
from radii.datasets.base import DataError
from radii.engines import _folding
from radii.runs.run import Run
from radii.smoothing.noise import Gaussian
from radii.training.build import build
from radii.training.open_dataset import dataset_of
from radii.training.weights import trained_model


@pytest.fixture(scope="module")
def run(trained_digits: Path) -> Run:
    return Run(trained_digits)


class FlipsDigits(nn.Module):
    """A fold that is wrong on digits only: images with black left and right borders, unlike drawn ones."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        digit = images[:, 0, :, [0, 7]].mean((1, 2))[:, None].abs() < 0.1
        return torch.where(digit, logits.flip(1), logits)


def test_a_deployed_model_needs_no_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise AssertionError("the dataset was opened")

    monkeypatch.setattr(loading, "dataset_of", gone)
    assert radii.load(run, engine="torch").classes == 10


def test_a_missing_training_split_leaves_drawn_images(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise DataError("no training split")

    monkeypatch.setattr(loading, "dataset_of", gone)
    assert open_run(run, "torch", Gaussian(0.25), None, 64)[0] == "torch"


def test_an_engine_is_compared_on_training_images(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_folding, "_fold", FlipsDigits)
    noise = Gaussian(0.01)
    _, classifier = open_run(run, "torch", noise, None, 64, data_at_hand=False)
    assert isinstance(classifier.prepared_for(torch.empty(1, 8, 8))[1], FlipsDigits)
    with pytest.raises(ValueError, match="'torch' gives the trained model's answer on .* % of a probe, expected 100 %"):
        open_run(run, "torch", noise, None, 64)


def test_a_teacher_is_compared_on_training_images(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_folding, "_fold", FlipsDigits)
    student = replace(run.recipe, objective={"name": "transfer"})
    teacher = build(student, teacher=run).objective.teacher  # type: ignore[attr-defined]
    assert not isinstance(teacher, FlipsDigits)
    images = spread_images(dataset_of(run, None).split("train"), 32)
    with torch.inference_mode():
        torch.testing.assert_close(teacher(images), trained_model(run)(images))


def test_images_are_spread_over_the_split(run: Run) -> None:
    split = dataset_of(run, None).split("train")
    assert torch.equal(spread_images(split, 2)[1], split.batch(torch.tensor([len(split) // 2]))[0])
    assert len(spread_images(split, 10**6)) == len(split)


def test_images_of_another_shape_are_refused_unless_stated(run: Run) -> None:
    classifier = radii.load(run, engine="torch")
    wide = torch.rand(1, 12, 12)
    with pytest.raises(ValueError, match=r"the image is 1 x 12 x 12 .*, the model was trained on 1 x 8 x 8"):
        radii.predict(classifier, wide)
    classifier.shape = (3, 8, 8)
    with pytest.raises(ValueError, match="It is grey: repeat its channel"):
        radii.predict(classifier, torch.rand(1, 8, 8))
    model = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4, 2))
    assert radii.predict(radii.SmoothedClassifier(model, sigma=0.25, classes=2), wide).samples > 0

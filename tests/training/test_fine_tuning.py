"""Fine-tuning and students: what they inherit from an imported run, and the defaults of their profiles."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import radii
from radii.errors import RunWarning
from radii.interop.factory import import_model
from radii.runs import profiles
from radii.runs.recipe import RecipeError
from radii.runs.run import Run
from radii.training.fine_tuning import fine_tuning_recipe, scratch_recipe, student_recipe
from radii.training.loop import train
from radii.training.weights import model_spec

SHORT = ["training.steps=2"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NETS = """
from torch import nn


def small(classes):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, classes))
"""


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A model with the normalisation of other pictures, on 400 pictures of two classes."""
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 2
    images = (rng.integers(0, 100, (400, 8, 8, 3)) + 100 * labels[:, None, None, None]).astype(np.uint8)
    np.savez(
        tmp_path / "mine.npz",
        train_images=images,
        train_labels=labels,
        test_images=images[:40],
        test_labels=labels[:40],
        class_names=np.array(["dark", "light"]),
    )
    (tmp_path / "tuned_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pictures = {"name": "arrays", "path": str(tmp_path / "mine.npz")}
    return import_model("tuned_nets:small", tmp_path / "mine", sigma=0.25, dataset=pictures, mean=MEAN, std=STD)


def test_fine_tuned_run_keeps_normalisation_and_classes(imported: Run, tmp_path: Path) -> None:
    tuned = train(fine_tuning_recipe(imported, "gaussian", SHORT), tmp_path / "tuned")
    assert model_spec(tuned) == model_spec(imported)
    assert tuned.class_names() == ("dark", "light")
    again = train(fine_tuning_recipe(tuned, "consistency", SHORT), tmp_path / "again")
    assert model_spec(again).normalisation == (MEAN, STD)


def test_student_keeps_normalisation_and_classes(imported: Run, tmp_path: Path) -> None:
    (student,) = radii.transfer(imported, [{"name": "tuned_nets:small"}], settings=SHORT, run=tmp_path / "student")
    assert model_spec(student) == model_spec(imported)


def test_denoiser_keeps_normalisation_and_classes(imported: Run, tmp_path: Path) -> None:
    denoised = train(fine_tuning_recipe(imported, "denoising", SHORT), tmp_path / "denoised")
    assert model_spec(denoised) == model_spec(imported)


def test_fine_tuning_follows_the_number_of_images(imported: Run) -> None:
    training = fine_tuning_recipe(imported, "gaussian").training
    assert training is not None
    assert (training.images_per_step, training.epochs, training.schedule) == (16, 40, "one_cycle")
    large = profiles.fine_tuning(50_000)
    assert (large.images_per_step, large.epochs) == (128, 5)
    assert training.learning_rate < large.learning_rate < profiles.from_scratch(50_000).learning_rate


def test_folder_of_few_pictures_does_not_get_the_schedule_of_imagenet(imported: Run) -> None:
    taught = student_recipe(imported).training
    assert taught is not None
    assert taught.images_per_step == profiles.batch_size(400) == 16


def test_objective_is_a_recipe_with_dataset_model_and_sigma() -> None:
    stated = ["dataset=digits", "model=digits_cnn", "sigma=0.5", "training.epochs=1"]
    recipe = scratch_recipe("standard", stated)
    assert recipe.training is not None
    assert (recipe.sigma, recipe.training.epochs, recipe.training.images_per_step) == (0.5, 1, 32)
    with pytest.raises(RecipeError, match="'standard' needs model, sigma: set them"):
        scratch_recipe("standard", ["dataset=digits"])


def test_all_wrong_settings_are_named_at_once() -> None:
    settings = ["dataset=digits", "model=digits_cnn", "sigma=lots", "training.epochs=-1"]
    with pytest.raises(RecipeError) as error:
        scratch_recipe("gaussian", settings)
    assert "sigma = 'lots', expected a number" in str(error.value)
    assert "epochs = -1" in str(error.value)


def test_normalised_is_the_models_first_layer() -> None:
    base = nn.Flatten()
    images = torch.rand(2, 3, 4, 4)
    expected = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    assert torch.equal(radii.Normalised(base, MEAN, STD)(images), expected.flatten(1))
    smoothed = radii.SmoothedClassifier(base, sigma=0.25, classes=48, mean=MEAN, std=STD)
    assert torch.equal(smoothed.base(images), expected.flatten(1))
    nan, inf = float("nan"), float("inf")
    for mean, std in (((0.5,), ()), ((), ()), ((0.5,), (0.0,)), ((nan,), (1.0,)), ((0.0,), (inf,))):
        with pytest.raises(ValueError, match="expected one number each per channel, std > 0"):
            radii.Normalised(base, mean, std)
    with pytest.raises(ValueError, match="expected one number each per channel"):
        radii.SmoothedClassifier(base, sigma=0.25, classes=48, mean=MEAN)
    with pytest.raises(ValueError, match="for pixels up to 255, divide mean and std by 255"):
        radii.SmoothedClassifier(base, sigma=0.25, classes=48, mean=(124.0, 116.0, 104.0), std=(58.0, 57.0, 57.0))
    with pytest.warns(RunWarning, match="If it was meant for pixels up to 255, state 0.251"):
        radii.SmoothedClassifier(base, sigma=64, classes=48)

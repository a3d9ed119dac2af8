"""Components of a recipe: fields, the location of data, and the start of fine-tuning."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import radii
from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.runs.recipe import Recipe, Training, parse
from radii.runs.run import Run, RunError
from radii.runs.trust import UnnamedDataError
from radii.training.loop import train
from radii.training.open_dataset import dataset_of
from radii.training.weights import model_spec

TRAINING = Training(epochs=1, images_per_step=64, learning_rate=0.01)
DIGITS = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=TRAINING)


@pytest.fixture
def birds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of photographs in two classes, in the current folder."""
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for kind in ("crow", "wren"):
            folder = tmp_path / "birds" / split / kind
            folder.mkdir(parents=True)
            for number in range(4):
                Image.fromarray(rng.integers(0, 256, (24, 20, 3), np.uint8)).save(folder / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RADII_DATA", raising=False)
    return tmp_path / "birds"


PHOTOGRAPHS = """
dataset = { name = "folder", path = "birds", size = 16, mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25] }
model = { name = "resnet18", width = 4 }
sigma = 0.25

[training]
epochs = 1
images_per_step = 4
learning_rate = 0.01
"""


def certify(run: Run, data: Path | None = None) -> Path:
    fixed = certifiers.create("fixed", selection=5, estimation=20)
    return certify_run(CertificationConfig(run=run.path, certifier=fixed, engine="torch", data=data), workers=1)


@pytest.mark.usefixtures("birds")
def test_run_finds_its_data_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(parse(PHOTOGRAPHS, "here"), "runs/birds")
    assert run.recipe.dataset["path"] == "../../birds"
    assert run.recipe.model == {"name": "resnet18", "width": 4}
    spec = model_spec(run)
    assert (spec.shape, spec.class_names) == ((3, 16, 16), ("crow", "wren"))
    assert spec.normalisation == ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    monkeypatch.chdir("/")
    assert len(certify(Run(tmp_path / "runs" / "birds")).read_text().splitlines()) == 9


@pytest.mark.usefixtures("birds")
def test_data_of_a_run_that_moved_with_it_is_named_once(tmp_path: Path) -> None:
    train(parse(PHOTOGRAPHS, "here"), "runs/birds")
    (tmp_path / "elsewhere").mkdir()
    for name in ("runs", "birds"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    run = Run(tmp_path / "elsewhere" / "runs" / "birds")
    with pytest.raises(UnnamedDataError, match="which this user has not named before"):
        certify(run)
    assert certify(run, tmp_path / "elsewhere" / "birds").is_file()
    assert dataset_of(run, None).class_names == ("crow", "wren")


def test_moved_data_can_be_named_again(birds: Path, tmp_path: Path) -> None:
    run = train(parse(PHOTOGRAPHS, "here"), "runs/birds")
    birds.rename(tmp_path / "moved")
    with pytest.raises(ValueError, match="there is no folder"):
        certify(run)
    assert certify(run, tmp_path / "moved").is_file()


def test_run_continues_with_its_data_at_another_path(birds: Path, tmp_path: Path) -> None:
    recipe = parse(PHOTOGRAPHS, "here")
    train(recipe, "runs/birds")
    birds.rename(tmp_path / "moved")
    again = train(recipe, "runs/birds", data=tmp_path / "moved")
    assert again.finished


@pytest.mark.usefixtures("birds")
def test_another_size_is_another_recipe() -> None:
    recipe = parse(PHOTOGRAPHS, "here")
    train(recipe, "runs/birds")
    with pytest.raises(RunError, match=r"it has dataset\.size = 16, not 18"):
        train(replace(recipe, dataset={**recipe.dataset, "size": 18}), "runs/birds")


def test_path_of_published_data_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = tmp_path / "data" / "mine.npz"
    arrays.parent.mkdir()
    images, labels = np.zeros((8, 8, 8), np.uint8), np.arange(8) % 2
    np.savez(arrays, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    monkeypatch.setenv("RADII_DATA", str(arrays))
    run = train(replace(DIGITS, dataset="arrays"), tmp_path / "run")
    monkeypatch.delenv("RADII_DATA")
    assert run.recipe.dataset["path"] == "../data/mine.npz"
    assert certify(run).is_file()


def test_fine_tuning_starts_from_a_run_or_a_file(tmp_path: Path) -> None:
    first = train(DIGITS, tmp_path / "first")
    still = replace(TRAINING, learning_rate=1e-30)
    for number, source in enumerate((first.path, first.weights_file)):
        tuned = train(replace(DIGITS, training=replace(still, initial=str(source))), tmp_path / f"tuned{number}")
        a, b = load_file(first.weights_file), load_file(tuned.weights_file)
        assert all(torch.equal(a[key], b[key]) for key in a)
        assert tuned.origin()["initial"]["path"].startswith("../first")
        assert tuned.recipe.training is not None
        assert tuned.recipe.training.initial == os.path.relpath(source, tuned.path)


def test_fine_tuning_of_another_model_is_refused(tmp_path: Path) -> None:
    first = train(DIGITS, tmp_path / "first")
    other = replace(DIGITS, model="digits_mlp", training=replace(TRAINING, initial=str(first.path)))
    with pytest.raises(RunError, match="does not hold the weights"):
        train(other, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_run_whose_initial_weights_changed_is_not_continued(tmp_path: Path) -> None:
    first = train(DIGITS, tmp_path / "first")
    tuned = replace(DIGITS, training=replace(TRAINING, initial=str(first.weights_file)))
    train(tuned, tmp_path / "tuned")
    train(replace(DIGITS, seed=1), tmp_path / "second")
    first.weights_file.write_bytes(Run(tmp_path / "second").weights_file.read_bytes())
    with pytest.raises(RunError, match="was started from another initial"):
        train(tuned, tmp_path / "tuned")


def test_adamw_run_continues_after_a_kill(tmp_path: Path) -> None:
    recipe = replace(DIGITS, training=replace(TRAINING, epochs=2, optimizer="adamw", learning_rate=1e-3))
    whole = train(recipe, tmp_path / "whole")

    def stop(event: object) -> None:
        if getattr(event, "row", None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "stopped", on_step=stop)
    again = train(recipe, tmp_path / "stopped")
    a, b = load_file(whole.weights_file), load_file(again.weights_file)
    assert all(torch.equal(a[key], b[key]) for key in a)


def test_class_names_are_stored_with_the_weights(tmp_path: Path) -> None:
    run = train(DIGITS, tmp_path / "run")
    assert model_spec(run).class_names == run.class_names() == tuple("0123456789")
    assert radii.load(run, engine="torch").classes == 10

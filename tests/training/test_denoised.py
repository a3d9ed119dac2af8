"""A denoiser in front of the classifier of a run: what is trained, what is copied, what the run keeps."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import radii
from radii.cli import main
from radii.errors import ParameterError
from radii.runs import profiles
from radii.runs.profiles import recipe_from
from radii.runs.recipe import Recipe, Training, parse
from radii.runs.run import Run, RunError
from radii.runs.trust import UntrustedError
from radii.training.build import build
from radii.training.loop import train
from radii.training.optimizer import make_optimizer
from radii.training.transfer import train_students
from radii.training.weights import trained_model

TRAINING = Training(epochs=1, images_per_step=256, learning_rate=0.01)
SMALL = {"name": "dncnn", "depth": 3, "width": 4}
CLASSIFIER = Recipe(
    dataset="digits", model="digits_cnn", sigma=0.25, objective="standard", normalisation="none", training=TRAINING
)


def wrapped(classifier: Run | Path, **changes: object) -> Recipe:
    path = str(classifier.path if isinstance(classifier, Run) else classifier)
    model = {"name": "denoised", "classifier": path, "denoiser": SMALL}
    plain = replace(CLASSIFIER, model=model, objective="denoising", normalisation="full")
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(CLASSIFIER, tmp_path_factory.mktemp("runs") / "classifier")


@pytest.fixture(scope="module")
def denoised(classifier: Run) -> Run:
    return train(wrapped(classifier), classifier.path.with_name("denoised"))


def test_run_holds_the_weights_of_its_classifier(classifier: Run, denoised: Run, tmp_path: Path) -> None:
    moved = Run(shutil.copytree(denoised.path, tmp_path / "moved"))
    assert moved.recipe.model == {"name": "denoised", "classifier": {"name": "digits_cnn"}, "denoiser": SMALL}
    assert moved.recipe.normalisation == "none"
    assert parse(moved.recipe.to_toml(), "here") == moved.recipe
    theirs = load_file(classifier.weights_file)
    kept = load_file(moved.weights_file)
    assert all(torch.equal(kept[f"1.classifier.{key}"], value) for key, value in theirs.items())
    assert any(key.startswith("1.denoiser.") for key in kept)
    assert radii.load(moved, engine="torch").classes == 10


def test_origin_names_the_classifier(classifier: Run, denoised: Run) -> None:
    assert denoised.origin()["classifier"]["path"] == "../classifier"
    assert denoised.source("classifier") == classifier.path


def test_only_the_denoiser_is_trained(classifier: Run) -> None:
    components = build(wrapped(classifier))
    (group,) = make_optimizer(components.training, components.model).param_groups
    denoiser = components.model.get_submodule("1.denoiser")
    assert {id(parameter) for parameter in group["params"]} == {id(parameter) for parameter in denoiser.parameters()}


def test_run_continues_only_with_the_same_classifier(classifier: Run, denoised: Run, tmp_path: Path) -> None:
    assert train(wrapped(classifier), denoised.path).finished
    other = train(replace(CLASSIFIER, seed=1), tmp_path / "other")
    with pytest.raises(RunError, match="was started from another classifier"):
        train(wrapped(other), denoised.path)


def test_denoised_run_can_be_fine_tuned(denoised: Run, tmp_path: Path) -> None:
    tuned = train(
        recipe_from(denoised.recipe, denoised.path, "gaussian", 1000, ["training.epochs=1"]), tmp_path / "tuned"
    )
    before, after = load_file(denoised.weights_file), load_file(tuned.weights_file)
    changed = {key.split(".")[1] for key in before if not torch.equal(before[key], after[key])}
    assert changed == {"denoiser"}


def test_denoiser_in_front_of_a_denoiser(denoised: Run, tmp_path: Path) -> None:
    twice = train(
        recipe_from(denoised.recipe, denoised.path, "denoising", 1000, ["training.epochs=1"]), tmp_path / "twice"
    )
    assert twice.recipe.model["classifier"] == denoised.recipe.model
    inner = trained_model(twice).get_submodule("1.classifier").state_dict()
    kept = load_file(denoised.weights_file)
    assert all(torch.equal(inner[key], kept[key]) for key in kept)


def test_classifier_without_weights_is_refused(denoised: Run, tmp_path: Path) -> None:
    """Its own recipe, trained again, would put the denoiser in front of random weights."""
    with pytest.raises(ParameterError, match="the classifier of the model 'denoised' has no weights"):
        train(denoised.recipe, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"name": "denoised", "classifier": "nowhere"}}, "nowhere is not a run"),
        ({"model": "denoised"}, "needs the field 'classifier'"),
        ({"model": {"name": "denoised", "classifier": {"denoiser": "x"}}}, "has no weights"),
        ({"model": "digits_cnn"}, "which this model lacks"),
    ],
)
def test_models_that_cannot_be_trained_are_refused(
    classifier: Run, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises((ValueError, LookupError), match=message):
        train(wrapped(classifier, **change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_classifier_of_other_images_is_refused(classifier: Run, tmp_path: Path) -> None:
    images, labels = np.zeros((8, 6, 6), np.uint8), np.arange(8) % 2
    arrays = tmp_path / "mine.npz"
    np.savez(arrays, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    with pytest.raises(RunError, match=r"takes images \(1, 8, 8\) in 10 classes, not \(1, 6, 6\) in 2"):
        train(wrapped(classifier, dataset={"name": "arrays", "path": str(arrays)}), tmp_path / "run")


PARTS = [
    ('classifier = { name = "digits_cnn" }', 'classifier = { name = "os:system" }', UntrustedError),
    ('denoiser = { name = "dncnn"', 'denoiser = { name = "os:system"', UntrustedError),
    ('classifier = { name = "digits_cnn" }', 'classifier = "os:system"', ValueError),
]


@pytest.mark.parametrize(("old", "new", "kind"), PARTS)
def test_code_in_the_model_of_a_run_is_not_run(
    denoised: Run, tmp_path: Path, old: str, new: str, kind: type[Exception]
) -> None:
    run = Run(shutil.copytree(denoised.path, tmp_path / "run"))
    text = run.recipe_file.read_text()
    assert old in text
    run.recipe_file.write_text(text.replace(old, new))
    with pytest.raises(kind, match="os:system"):
        radii.load(run)


def test_classifier_that_names_code_is_refused(classifier: Run, tmp_path: Path) -> None:
    run = Run(shutil.copytree(classifier.path, tmp_path / "theirs"))
    run.recipe_file.write_text(run.recipe_file.read_text().replace('"digits_cnn"', '"os:system"'))
    with pytest.raises(UntrustedError, match="os:system"):
        train(wrapped(run), tmp_path / "run")
    with pytest.raises(UntrustedError, match="os:system"):
        recipe_from(run.recipe, run.path, "gaussian", 1000)


def test_recipe_from_a_run_has_its_data_model_and_sigma(classifier: Run) -> None:
    tuned = recipe_from(
        classifier.recipe, classifier.path, "consistency", 1000, ["training.epochs=2", "objective.weight=1.5"]
    )
    assert (tuned.dataset, tuned.model) == (classifier.recipe.dataset, {"name": "digits_cnn"})
    assert (tuned.sigma, tuned.normalisation) == (0.25, "none")
    assert (tuned.objective["name"], tuned.objective["weight"]) == ("consistency", 1.5)
    assert tuned.training is not None
    # The rest of the schedule is that of fine-tuning: a small rate, and weights that rise.
    assert (tuned.training.epochs, tuned.training.schedule) == (2, "one_cycle")
    assert tuned.training.learning_rate == profiles.fine_tuning(1000).learning_rate
    assert tuned.objective["weight_ramp"] == profiles.WEIGHT_RAMP
    assert tuned.training.initial == str(classifier.path)


def test_recipe_from_a_run_without_a_shipped_recipe(classifier: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.runs.profiles.shipped", list)
    tuned = recipe_from(classifier.recipe, classifier.path, "consistency", 1000)
    assert tuned.training == replace(profiles.fine_tuning(1000), initial=str(classifier.path))
    denoised = recipe_from(classifier.recipe, classifier.path, "denoising", 1000)
    assert denoised.model == {"name": "denoised", "denoiser": "ffdnet", "classifier": str(classifier.path)}


@pytest.mark.parametrize(("pixels", "images"), [(28**2, 128), (64**2, 32), (224**2, 4)])
def test_large_images_need_few_for_a_step_of_a_denoiser(pixels: int, images: int) -> None:
    training = profiles.denoiser_training(10_000, pixels)
    assert (training.images_per_step, training.optimizer) == (images, "muon")
    assert training.learning_rate == profiles.denoiser_training(10_000, profiles.SMALL).learning_rate


def test_recipe_is_chosen_by_name_or_nearest_sigma(classifier: Run) -> None:
    near = recipe_from(classifier.recipe, classifier.path, "macer", 1000, ["sigma=0.5"])
    named = recipe_from(classifier.recipe, classifier.path, "digits/macer-0.50", 1000)
    assert near.objective == parse(Path("recipes/digits/macer-0.25.toml").read_text(), "here").objective
    assert named.objective == parse(Path("recipes/digits/macer-0.50.toml").read_text(), "here").objective
    assert (near.sigma, named.sigma) == (0.5, 0.25)


def test_recipe_from_a_run_finds_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = np.zeros((8, 8, 8), np.uint8), np.arange(8) % 2
    np.savez(tmp_path / "mine.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    table = {"name": "arrays", "path": str(tmp_path / "mine.npz")}
    run = train(replace(CLASSIFIER, dataset=table), tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RADII_DATA", "elsewhere")
    assert recipe_from(Run("runs/mine").recipe, Run("runs/mine").path, "gaussian", 1000).dataset["path"] == "mine.npz"
    (tmp_path / "mine.npz").unlink()
    assert "path" not in recipe_from(run.recipe, run.path, "gaussian", 1000).dataset


OWN = """
from torch import nn

class Tiny(nn.Sequential):
    def __init__(self, shape, classes):
        super().__init__(nn.Flatten(), nn.Linear(shape[1] * shape[2], classes))

def blur(shape, size=3):
    return nn.Conv2d(shape[0], shape[0], size, padding=size // 2)
"""


def test_denoiser_and_classifier_from_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factory of one's own may bring its weights along; its code is on record once it was run."""
    (tmp_path / "own_parts.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    model = {"name": "denoised", "classifier": {"name": "own_parts:Tiny"}, "denoiser": {"name": "own_parts:blur"}}
    run = train(replace(CLASSIFIER, model=model, objective="denoising"), "mine")
    assert run.recipe.model["denoiser"] == {"name": "own_parts:blur", "size": 3}
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(UntrustedError, match="own_parts"):
        radii.load(run.path)
    assert radii.load(run.path, trust=["own_parts"], engine="torch").classes == 10


def test_classifier_of_trusted_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_nets.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = train(replace(CLASSIFIER, model="own_nets:Tiny"), "mine")
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(UntrustedError, match="own_nets"):
        train(wrapped(run), "denoised")
    assert train(wrapped(run), "denoised", trust=["own_nets"]).finished


def radii_command(*arguments: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["radii", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
    assert stopped.value.code == 0


@pytest.mark.slow
def test_denoising_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained without noise, defended by a denoiser, certified, and taught to one small student."""
    monkeypatch.chdir(tmp_path)
    radii_command("train", "digits/standard-0.25", "--run", "runs/mine", "--set", "training.epochs=10")
    settings = ["--set", "training.epochs=6"]
    radii_command("train", "denoising", "--from", "runs/mine", "--run", "runs/defended", *settings)
    radii_command("train", "consistency", "--from", "runs/mine", "--run", "runs/tuned", *settings)
    shutil.rmtree("runs/mine")
    options = ["--every", "30", "--set", "estimation=200", "--workers", "1", "--engine", "torch"]
    radii_command("certify", "runs/defended", *options)
    slowly = ["--set", "training.learning_rate=0.03"]  # at 0.1 it depends on the rounding of a machine
    radii_command("transfer", "--teacher", "runs/defended", "--model", "digits_cnn", *settings, *slowly)
    student = Run("runs/defended-to-digits_cnn")
    radii_command("report", "runs/defended", "--out", "out")
    assert "denoised, digits_cnn, dncnn" in Path("out/report.html").read_text()
    accuracy = {run.name: float(run.history()[-1]["noisy_test_accuracy"]) for run in (Run("runs/defended"), student)}
    assert min(accuracy.values()) > 0.7
    assert json.loads((student.path / "transfer.json").read_text())["method"] == "denoising"


def test_denoised_run_can_be_a_teacher(denoised: Run, tmp_path: Path) -> None:
    schedule = replace(CLASSIFIER, objective={"name": "transfer"})
    (student,) = train_students(denoised, schedule, ["digits_mlp"], run=tmp_path / "student")
    assert student.source("teacher") == denoised.path
    price = json.loads((student.path / "transfer.json").read_text())
    assert price["method"] == "denoising"
    assert price["method_seconds_per_epoch"] > 0

"""Ensembles of trained runs: imported, certified as one function, and as a teacher."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import radii
from radii import cli
from radii.errors import ParameterError
from radii.interop.ensemble import import_ensemble
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training.loop import train
from radii.training.transfer import train_students
from radii.training.weights import trained_model

Copies = Callable[..., Run]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Run:
    training = Training(epochs=1, images_per_step=256, learning_rate=0.05)
    recipe = Recipe(dataset="digits", model="digits_mlp", sigma=0.25, seed=1, training=training)
    return train(recipe, tmp_path_factory.mktemp("runs") / "other")


def test_ensemble_answers_the_mean_of_its_members(digits_run: Copies, other: Run, tmp_path: Path) -> None:
    first = digits_run()
    run = import_ensemble([first, other.path], tmp_path / "both")
    images = torch.rand(5, 1, 8, 8)
    with torch.inference_mode():
        expected = (trained_model(first)(images) + trained_model(other)(images)) / 2
        torch.testing.assert_close(trained_model(run)(images), expected)
    members = run.recipe.model["members"]
    assert [member["name"] for member in members] == [first.recipe.model["name"], "digits_mlp"]
    assert run.source("members.1") == other.path


def radii_command(*words: str) -> None:
    cli.app(list(words), exit_on_error=False, print_error=False, result_action="return_value")


def test_ensemble_on_the_command_line(
    digits_run: Copies, other: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = f'{{ name = "ensemble", members = ["{digits_run().path}", "{other.path}"], consensus = 1 }}'
    run = str(tmp_path / "both")
    radii_command("import", table, "--run", run)
    assert "imported for sigma 0.25" in capsys.readouterr().out
    radii_command("certify", run, "--every", "200", "--set", "estimation=200", "--workers", "1")
    with pytest.raises(SystemExit) as verified:
        radii_command("verify", run)
    assert verified.value.code == 0
    with pytest.raises(ValueError, match="An ensemble takes its images and weights from its members. Leave out --mean"):
        radii_command("import", table, "--run", run, "--mean", "0.5", "--std", "0.5")
    with pytest.raises(ValueError, match="an ensemble has no field 'depth'"):
        radii_command("import", table.replace("consensus", "depth"), "--run", run)


def test_ensemble_teaches(digits_run: Copies, other: Run, tmp_path: Path) -> None:
    teacher = import_ensemble([digits_run(), other], tmp_path / "both")
    recipe = Recipe(
        dataset="digits",
        model="digits_mlp",
        sigma=0.25,
        objective="transfer",
        training=Training(epochs=1, images_per_step=512, learning_rate=0.05),
    )
    (student,) = train_students(teacher, recipe, ["digits_mlp"])
    assert student.finished


def test_members_of_another_noise_are_refused(digits_run: Copies, other: Run, tmp_path: Path) -> None:
    louder = replace(other.recipe, sigma=0.5)
    second = train(louder, tmp_path / "louder")
    with pytest.raises(ParameterError, match="has another sigma: 0.5"):
        import_ensemble([digits_run(), second], tmp_path / "both")
    with pytest.raises(ParameterError, match="expected the paths of at least 2 trained runs"):
        import_ensemble([digits_run("alone")], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_ensemble_is_trained_from_its_members(digits_run: Copies, other: Run, tmp_path: Path) -> None:
    model = {"name": "ensemble", "members": (str(digits_run().path), {"name": "digits_mlp"})}
    recipe = replace(other.recipe, model=model)
    run = train(recipe, tmp_path / "joint")
    assert [member["name"] for member in run.recipe.model["members"]] == ["digits_cnn", "digits_mlp"]
    smoothed = radii.load(run.path)
    assert smoothed.classes == 10

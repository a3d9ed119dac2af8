"""Ensembles of trained runs: imported, certified as one function, and as a teacher."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import radii
from radii import cli, datasets
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
    with pytest.raises(ParameterError, match="expected a list of the paths of trained runs"):
        import_ensemble(str(other.path), tmp_path / "both")
    assert not (tmp_path / "both").exists()


@pytest.mark.parametrize("consensus", [0, 1])
def test_ensemble_may_hold_another_as_member_and_teacher(
    digits_run: Copies, other: Run, tmp_path: Path, consensus: int
) -> None:
    inner = import_ensemble([digits_run(), other], tmp_path / "inner", consensus=consensus)
    outer = import_ensemble([inner, other], tmp_path / "outer", consensus=consensus)
    images = torch.rand(40, 1, 8, 8) + 0.25 * torch.randn(40, 1, 8, 8)
    with torch.inference_mode():
        ours, theirs, logits = (trained_model(run)(images) for run in (inner, other, outer))
        agreed = torch.full((40, 1), bool(consensus))  # one member always agrees with itself
        torch.testing.assert_close(logits, torch.where(agreed, ours, (ours + theirs) / 2))
    recipe = Recipe(
        dataset="digits",
        model="digits_mlp",
        sigma=0.25,
        objective="transfer",
        training=Training(epochs=1, images_per_step=512, learning_rate=0.05),
    )
    live, taped = (train(recipe, tmp_path / name, teacher=outer) for name in ("live", "taped"))
    assert len(list(outer.path.glob("tapes/*/*.logits"))) == 1
    assert live.weights().read_bytes() == taped.weights().read_bytes()


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_consensus_is_one_function_for_every_batch(digits_run: Copies, other: Run, tmp_path: Path, engine: str) -> None:
    """Votes do not depend on which rows go through the network together, as a certificate states."""
    third = train(replace(other.recipe, seed=2), tmp_path / "third")
    run = import_ensemble([digits_run(), other, third], tmp_path / "three", consensus=2)
    image = datasets.create("digits").part("test").batch(torch.tensor([3]))[0]
    certified = [
        radii.certify(radii.load(run.path, engine=engine, batch_size=size), image, seed=0, selection=64, estimation=512)
        for size in (7, 256)
    ]
    assert certified[0] == certified[1]
    whole = import_ensemble([digits_run("again"), other, third], tmp_path / "whole")
    noisy = image + 0.25 * torch.randn(512, *image.shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        first, second = (trained_model(each)(noisy) for each in (run, whole))
    kept = (first - second).abs().amax(1) < 1e-5
    assert 0 < int(kept.sum()) < len(noisy)  # another function than the mean of all, where the first two agree


def test_certificates_of_another_consensus_are_not_continued(digits_run: Copies, other: Run, tmp_path: Path) -> None:
    runs = [import_ensemble([digits_run(f"m{k}"), other], tmp_path / f"k{k}", consensus=k) for k in (0, 1)]
    assert runs[0].weights_digest() == runs[1].weights_digest()  # the same weights: the recipe has to tell them apart
    words = ("--every", "200", "--set", "estimation=100", "--workers", "1", "--engine", "torch")
    radii_command("certify", str(runs[0].path), *words)
    shutil.copytree(runs[0].certificates, runs[1].certificates)
    (file,) = runs[1].certificates.glob("*.tsv")
    before = file.read_bytes()
    with pytest.raises(ValueError, match="model"):
        radii_command("certify", str(runs[1].path), *words)
    assert file.read_bytes() == before


def test_ensemble_is_trained_from_its_members(digits_run: Copies, other: Run, tmp_path: Path) -> None:
    model = {"name": "ensemble", "members": (str(digits_run().path), {"name": "digits_mlp"})}
    recipe = replace(other.recipe, model=model)
    run = train(recipe, tmp_path / "joint")
    assert [member["name"] for member in run.recipe.model["members"]] == ["digits_cnn", "digits_mlp"]
    smoothed = radii.load(run.path)
    assert smoothed.classes == 10

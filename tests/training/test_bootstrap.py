import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from radii import cli
from radii.cli.app import in_words
from radii.runs.lineage import seconds_before, training_seconds
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.bootstrap import bootstrap, default_voter, needs_soft_labels
from radii.training.transfer import transfer

TRAINING = Training(epochs=1, images_per_step=400, learning_rate=0.05)
CATRS = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.5,
    seed=3,
    objective={"name": "catrs", "copies": 2, "steps": 1},
    training=TRAINING,
)


def test_a_catrs_teacher_gets_its_soft_labels_on_the_way_and_their_time_is_counted(tmp_path: Path) -> None:
    voter = replace(default_voter(CATRS), training=TRAINING)
    teacher = bootstrap(CATRS, tmp_path / "teacher", voter=voter, votes=4, workers=1)
    voting = Run(tmp_path / "teacher-voter")
    assert teacher.source("soft_labels") == voting.soft_labels_file
    assert (voting.recipe.sigma, voting.recipe.seed) == (0.25, 3)
    (student,) = transfer(teacher, replace(CATRS, objective={"name": "transfer"}), ["digits_cnn"])
    before = seconds_before(student)
    votes = np.fromfile(voting.soft_labels_times, "<f8")
    assert len(votes) == 1347
    assert before["teachers"] == training_seconds(teacher)
    assert before["soft_labels"] == pytest.approx(math.fsum(votes) + (training_seconds(voting) or 0))
    assert json.loads((student.path / "transfer.json").read_text())["seconds_before"] == before


def test_the_voter_is_the_gaussian_recipe_of_the_dataset_with_the_teachers_model() -> None:
    found = default_voter(replace(CATRS, dataset="mnist", model={"name": "lenet", "width": 2}))
    assert (found.objective["name"], found.sigma, found.model["width"]) == ("gaussian", 0.25, 2)
    assert needs_soft_labels(CATRS)
    assert not needs_soft_labels(replace(CATRS, objective={"name": "catrs", "target": "hard_label"}))
    assert not needs_soft_labels(replace(CATRS, objective="gaussian"))


def radii(*words: str) -> None:
    cli.app([*words], exit_on_error=False, print_error=False, result_action="return_value")


def test_teacher_with_other_settings_goes_to_a_folder_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    student = ("--model", "digits_mlp", "--set", "training.epochs=1")
    words = ("transfer", "--bootstrap", "digits/gaussian-0.25", *student)
    radii(*words, "--teacher-set", "training.epochs=1")
    again = (*words, "--teacher-set", "training.epochs=2", "--run", "runs/second")
    with pytest.raises(RunError, match="runs/digits-gaussian-0.25-digits_cnn belongs to another recipe") as told:
        radii(*again)
    assert in_words(told.value).endswith("; name another with --teacher")
    radii(*again, "--teacher", "runs/other")
    assert Run("runs/second").source("teacher") == Path("runs/other")
    assert len(Run("runs/other").history()) == 2


def test_no_votes_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="votes = 0, expected"):
        bootstrap(CATRS, tmp_path / "teacher", votes=0)
    assert not any(tmp_path.iterdir())


def test_other_votes_are_named_in_words(tmp_path: Path) -> None:
    voter = replace(default_voter(CATRS), training=TRAINING)
    bootstrap(CATRS, tmp_path / "teacher", voter=voter, votes=2, workers=1)
    with pytest.raises(RunError, match=r"has soft labels of other votes \(samples 2, not 3\): remove"):
        bootstrap(CATRS, tmp_path / "teacher", voter=voter, votes=3, workers=1)

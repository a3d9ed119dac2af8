"""Transfer to one student or a chain, and the teacher that --bootstrap trains first."""

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
from radii.training.loop import train
from radii.training.transfer import bootstrap, default_voter, needs_soft_labels, train_students

TRAINING = Training(epochs=1, images_per_step=256, learning_rate=0.05)
TEACHER = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.25,
    objective={"name": "smoothmix", "copies": 2, "steps": 1},
    training=TRAINING,
)
STUDENT = replace(TEACHER, objective={"name": "transfer"})


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(TEACHER, tmp_path_factory.mktemp("runs") / "teacher")


@pytest.mark.slow
def test_chain_of_students_teaches_the_next(teacher: Run) -> None:
    first, second = train_students(teacher, STUDENT, ["cifar_resnet20", "digits_cnn"])
    assert (first.name, second.name) == ("teacher-to-cifar_resnet20", "teacher-to-cifar_resnet20-to-digits_cnn")
    assert first.source("teacher") == teacher.path
    assert second.source("teacher") == first.path
    assert first.origin()["teacher"]["path"] == "../teacher"
    cost = json.loads((second.path / "transfer.json").read_text())
    assert cost["method"] == "smoothmix"
    assert cost["method_seconds_per_epoch"] > 0


def test_student_run_continues_only_with_the_same_teacher(teacher: Run, tmp_path: Path) -> None:
    (student,) = train_students(teacher, STUDENT, ["digits_cnn"], run=tmp_path / "student")
    other = train(replace(TEACHER, seed=1), tmp_path / "other")
    with pytest.raises(RunError, match="started from another teacher"):
        train(STUDENT, student.path, teacher=other)


@pytest.mark.parametrize("change", [{"sigma": 0.5}, {"dataset": "mnist"}])
def test_teacher_of_another_dataset_or_sigma_is_refused(
    teacher: Run, tmp_path: Path, change: dict[str, object]
) -> None:
    with pytest.raises(RunError, match=f"has another {next(iter(change))}"):
        train(replace(STUDENT, **change), tmp_path / "student", teacher=teacher)  # type: ignore[arg-type]
    with pytest.raises(RunError, match=f"has another {next(iter(change))}"):
        next(train_students(teacher, replace(STUDENT, **change), ["digits_cnn"], run=tmp_path / "student"))  # type: ignore[arg-type]
    assert not (tmp_path / "student").exists()


def test_missing_teacher_is_an_error_before_training(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="needs teacher: the model of a trained run"):
        train(STUDENT, tmp_path / "student")
    assert not (tmp_path / "student").exists()


def test_teacher_is_refused_by_an_objective_without_one(teacher: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'smoothmix' takes no teacher"):
        train(TEACHER, tmp_path / "student", teacher=teacher)


def test_one_run_directory_for_several_students_is_refused(teacher: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one directory is named for several students"):
        next(train_students(teacher, STUDENT, ["digits_cnn", "cifar_resnet20"], run=tmp_path / "one"))


# Bootstrap


SHORT = Training(epochs=1, images_per_step=400, learning_rate=0.05)
CATRS = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.5,
    seed=3,
    objective={"name": "catrs", "copies": 2, "steps": 1},
    training=SHORT,
)


def test_bootstrap_of_catrs_makes_soft_labels_and_counts_their_time(tmp_path: Path) -> None:
    voter = replace(default_voter(CATRS), training=SHORT)
    teacher = bootstrap(CATRS, tmp_path / "teacher", voter=voter, votes=4, workers=1)
    voting = Run(tmp_path / "teacher-voter")
    assert teacher.source("soft_labels") == voting.soft_labels_file
    assert (voting.recipe.sigma, voting.recipe.seed) == (0.25, 3)
    (student,) = train_students(teacher, replace(CATRS, objective={"name": "transfer"}), ["digits_cnn"])
    before = seconds_before(student)
    votes = np.fromfile(voting.soft_labels_times, "<f8")
    assert len(votes) == 1347
    assert before["teachers"] == training_seconds(teacher)
    assert before["soft_labels"] == pytest.approx(math.fsum(votes) + (training_seconds(voting) or 0))
    assert json.loads((student.path / "transfer.json").read_text())["seconds_before"] == before


def test_default_voter_is_the_gaussian_recipe_with_the_teachers_model() -> None:
    voter = default_voter(replace(CATRS, dataset="mnist", model={"name": "lenet", "width": 2}))
    assert (voter.objective["name"], voter.sigma, voter.model["width"]) == ("gaussian", 0.25, 2)
    assert needs_soft_labels(CATRS)
    assert not needs_soft_labels(replace(CATRS, objective={"name": "catrs", "target": "hard_label"}))
    assert not needs_soft_labels(replace(CATRS, objective="gaussian"))


def radii(*words: str) -> None:
    cli.app([*words], exit_on_error=False, print_error=False, result_action="return_value")


def test_teacher_with_other_settings_needs_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    student = ("--model", "digits_mlp", "--set", "training.epochs=1")
    words = ("transfer", "--bootstrap", "digits/gaussian-0.25", *student)
    radii(*words, "--teacher-set", "training.epochs=1")
    again = (*words, "--teacher-set", "training.epochs=2", "--run", "runs/second")
    with pytest.raises(RunError, match="runs/digits-gaussian-0.25-digits_cnn belongs to another recipe") as caught:
        radii(*again)
    assert in_words(caught.value).endswith("; name another with --teacher")
    radii(*again, "--teacher", "runs/other")
    assert Run("runs/second").source("teacher") == Path("runs/other")
    assert len(Run("runs/other").history()) == 2


def test_zero_votes_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="votes = 0, expected"):
        bootstrap(CATRS, tmp_path / "teacher", votes=0)
    assert not any(tmp_path.iterdir())


def test_soft_labels_with_another_number_of_votes_are_refused(tmp_path: Path) -> None:
    voter = replace(default_voter(CATRS), training=SHORT)
    bootstrap(CATRS, tmp_path / "teacher", voter=voter, votes=2, workers=1)
    with pytest.raises(RunError, match=r"has soft labels that were made with samples = 2, not 3: remove"):
        bootstrap(CATRS, tmp_path / "teacher", voter=voter, votes=3, workers=1)

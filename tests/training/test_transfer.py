import json
from dataclasses import replace
from pathlib import Path

import pytest

from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.train import train
from radii.training.transfer import transfer

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
    first, second = transfer(teacher, STUDENT, ["cifar_resnet20", "digits_cnn"])
    assert (first.name, second.name) == ("teacher-to-cifar_resnet20", "teacher-to-cifar_resnet20-to-digits_cnn")
    assert first.source("teacher") == teacher.path
    assert second.source("teacher") == first.path
    assert first.origin()["teacher"]["path"] == "../teacher"
    cost = json.loads((second.path / "transfer.json").read_text())
    assert cost["method"] == "smoothmix"
    assert cost["method_seconds_per_epoch"] > 0


def test_student_run_continues_only_with_the_same_teacher(teacher: Run, tmp_path: Path) -> None:
    (student,) = transfer(teacher, STUDENT, ["digits_cnn"], run=tmp_path / "student")
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
        next(transfer(teacher, replace(STUDENT, **change), ["digits_cnn"], run=tmp_path / "student"))  # type: ignore[arg-type]
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
        next(transfer(teacher, STUDENT, ["digits_cnn", "cifar_resnet20"], run=tmp_path / "one"))

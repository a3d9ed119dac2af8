import json
from dataclasses import replace
from pathlib import Path

import pytest

from radii.experiment.recipe import Recipe, Training
from radii.experiment.run import Run, RunError
from radii.loops.train import train
from radii.loops.transfer import transfer

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
def test_a_chain_teaches_itself(teacher: Run) -> None:
    first, second = transfer(teacher, STUDENT, ["cifar_resnet20", "digits_cnn"])
    assert (first.name, second.name) == ("teacher-to-cifar_resnet20", "teacher-to-cifar_resnet20-to-digits_cnn")
    assert first.source("teacher") == teacher.path
    assert second.source("teacher") == first.path
    assert first.origin()["teacher"]["path"] == "../teacher"
    price = json.loads((second.path / "transfer.json").read_text())
    assert price["method"] == "smoothmix"
    assert price["method_seconds_per_epoch"] > 0


def test_a_student_continues_only_with_its_teacher(teacher: Run, tmp_path: Path) -> None:
    (student,) = transfer(teacher, STUDENT, ["digits_cnn"], run=tmp_path / "student")
    other = train(replace(TEACHER, seed=1), tmp_path / "other")
    with pytest.raises(RunError, match="begun from another teacher"):
        train(STUDENT, student.path, teacher=other)


@pytest.mark.parametrize("change", [{"sigma": 0.5}, {"dataset": "mnist"}])
def test_a_teacher_of_something_else_is_refused(teacher: Run, tmp_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(RunError, match=f"has another {next(iter(change))}"):
        train(replace(STUDENT, **change), tmp_path / "student", teacher=teacher)  # type: ignore[arg-type]
    with pytest.raises(RunError, match=f"has another {next(iter(change))}"):
        next(transfer(teacher, replace(STUDENT, **change), ["digits_cnn"], run=tmp_path / "student"))  # type: ignore[arg-type]
    assert not (tmp_path / "student").exists()


def test_transfer_without_a_teacher_says_so_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="needs teacher: the model of a trained run"):
        train(STUDENT, tmp_path / "student")
    assert not (tmp_path / "student").exists()


def test_a_teacher_that_nobody_asked_for_is_refused(teacher: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'smoothmix' takes no teacher"):
        train(TEACHER, tmp_path / "student", teacher=teacher)


def test_one_directory_cannot_hold_a_transfer(teacher: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one directory is named for several students"):
        next(transfer(teacher, STUDENT, ["digits_cnn", "cifar_resnet20"], run=tmp_path / "one"))

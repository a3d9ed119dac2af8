"""Teacher tapes: later students get the logits that the teacher would give, bit for bit, and it does not run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii import cli, engines
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training import tape as tapes
from radii.training.loop import StepEvent, train
from radii.training.tape import Tape
from radii.training.timing import TIMED_STEPS
from radii.training.transfer import train_students
from tools.processes import wait_for, warm_context

Copies = Callable[..., Run]
RECIPE = Recipe(
    dataset="digits",
    model="digits_mlp",
    sigma=0.25,
    objective="transfer",
    training=Training(epochs=2, images_per_step=256, learning_rate=0.05),
)

TIMED = (TIMED_STEPS + 1) * 256
"""The most rows of the steps that are timed before a training."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each forward pass of a teacher in training."""
    rows: list[int] = []
    folded = engines.folded

    def counted(model: nn.Module, probe: Tensor | None = None) -> nn.Module:
        teacher = folded(model, probe)
        teacher.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
        return teacher

    monkeypatch.setattr(engines, "folded", counted)
    return rows


def weights(run: Run) -> bytes:
    return run.weights().read_bytes()


def files(teacher: Run) -> list[Path]:
    return sorted(teacher.path.glob("tapes/*/*.logits"))


@pytest.mark.parametrize(("precision", "stream"), [("float32", None), ("float32", "philox"), ("bfloat16", None)])
def test_student_of_a_tape_equals_the_student_of_the_teacher(
    digits_run: Copies, tmp_path: Path, calls: list[int], precision: str, stream: str | None
) -> None:
    training = replace(RECIPE.training, precision=precision, stream=stream)  # type: ignore[type-var]
    recipe, teacher = replace(RECIPE, training=training), digits_run()
    live = train(recipe, tmp_path / "live", teacher=teacher)
    assert sum(calls) == 2 * 1347
    assert len(files(teacher)) == 2
    calls.clear()
    taped = train(recipe, tmp_path / "taped", teacher=Run(teacher.path))
    assert not calls
    assert weights(taped) == weights(live)
    assert taped.origin()["teacher"]["hash"] == live.origin()["teacher"]["hash"]


def test_siblings_share_a_tape_and_a_longer_schedule_extends_it(digits_run: Copies, calls: list[int]) -> None:
    teacher = digits_run()
    first, second = train_students(teacher, RECIPE, ["digits_mlp", "digits_cnn"], siblings=True)
    assert {first.source("teacher"), second.source("teacher")} == {teacher.path}
    assert sum(calls) == 2 * 1347
    calls.clear()
    longer = replace(RECIPE, training=replace(RECIPE.training, epochs=3))  # type: ignore[type-var]
    train(longer, teacher.path.with_name("longer"), teacher=teacher)
    assert sum(calls) == 1347


def test_siblings_on_the_command_line_share_a_tape(digits_run: Copies, calls: list[int]) -> None:
    teacher = digits_run()
    models = ("--model", "digits_mlp", "--model", "digits_cnn")
    settings = ("--set", "training.epochs=2", "--set", "training.images_per_step=256")
    words = ["transfer", "--teacher", str(teacher.path), *models, "--siblings", *settings]
    cli.app(words, exit_on_error=False, print_error=False, result_action="return_value")
    students = [Run(teacher.path.with_name(f"{teacher.name}-to-{name}")) for name in ("digits_mlp", "digits_cnn")]
    assert [student.source("teacher") for student in students] == [teacher.path, teacher.path]
    assert len(files(teacher)) == 2
    assert 2 * 1347 < sum(calls) <= 2 * 1347 + TIMED, "only the first student trains with the teacher"


def test_denoised_teacher_is_paid_once(digits_run: Copies, tmp_path: Path, calls: list[int]) -> None:
    model = {
        "name": "denoised",
        "classifier": str(digits_run().path),
        "denoiser": {"name": "dncnn", "depth": 3, "width": 4},
    }
    training = Training(epochs=1, images_per_step=256, learning_rate=0.01)
    teacher = train(replace(RECIPE, model=model, objective="denoising", training=training), tmp_path / "teacher")
    live, _ = train_students(teacher, RECIPE, ["digits_mlp", "digits_cnn"], siblings=True)
    assert sum(calls) == 2 * 1347
    assert weights(train(RECIPE, tmp_path / "taped", teacher=teacher)) == weights(live)
    assert sum(calls) == 2 * 1347


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"training": Training(epochs=2, images_per_step=128, learning_rate=0.05)},
        {"training": Training(epochs=2, images_per_step=256, learning_rate=0.05, stream="philox")},
    ],
)
def test_other_noise_or_batches_need_another_tape(
    digits_run: Copies, tmp_path: Path, calls: list[int], change: dict[str, object]
) -> None:
    teacher = digits_run()
    train(RECIPE, tmp_path / "first", teacher=teacher)
    calls.clear()
    train(replace(RECIPE, **change), tmp_path / "second", teacher=teacher)  # type: ignore[arg-type]
    assert sum(calls) == 2 * 1347
    assert len(files(teacher)) == 4


def test_tape_of_other_weights_is_not_used(digits_run: Copies, tmp_path: Path, calls: list[int]) -> None:
    teacher = digits_run()
    train(RECIPE, tmp_path / "first", teacher=teacher)
    other = train(replace(teacher.recipe, seed=5), tmp_path / "other")
    (teacher.path / "model.safetensors").write_bytes(weights(other))
    calls.clear()
    train(RECIPE, tmp_path / "second", teacher=Run(teacher.path))
    assert sum(calls) == 2 * 1347


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_damaged_epoch_is_recorded_again(
    digits_run: Copies, tmp_path: Path, calls: list[int], damage: bytes | None
) -> None:
    teacher = digits_run()
    live = train(RECIPE, tmp_path / "first", teacher=teacher)
    file = files(teacher)[1]
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1, *content[1:]]) if damage is None else damage)
    calls.clear()
    again = train(RECIPE, tmp_path / "second", teacher=teacher)
    assert sum(calls) == 1347
    assert weights(again) == weights(live)
    assert file.read_bytes() == content


@pytest.mark.parametrize("wrong", ["epoch", "tape"])
def test_logits_of_another_epoch_or_tape_are_not_used(
    digits_run: Copies, tmp_path: Path, calls: list[int], wrong: str
) -> None:
    teacher = digits_run()
    live = train(RECIPE, tmp_path / "first", teacher=teacher)
    first, second = files(teacher)
    if wrong == "tape":
        train(replace(RECIPE, seed=1), tmp_path / "other", teacher=teacher)
        (first,) = (file for file in files(teacher) if file.name == second.name and file != second)
    content = second.read_bytes()
    second.write_bytes(first.read_bytes())
    calls.clear()
    again = train(RECIPE, tmp_path / "second", teacher=teacher)
    assert sum(calls) == 1347
    assert weights(again) == weights(live)
    assert second.read_bytes() == content


def header_of(teacher: Run) -> Mapping[str, Any]:
    return tapes.tape_header(teacher, teacher.recipe.model_digest, RECIPE, "digest")


def test_another_device_or_function_of_the_same_weights_has_another_tape(
    digits_run: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = digits_run()
    header = header_of(teacher)
    monkeypatch.setattr(tapes, "default_device", lambda: torch.device("cuda", 1))
    assert header_of(teacher) == {**header, "device": "cuda"}
    monkeypatch.undo()
    text = teacher.recipe_file.read_text()
    teacher.recipe_file.write_text(text.replace('normalisation = "full"', 'normalisation = "none"'))
    assert teacher.recipe_file.read_text() != text
    other = header_of(Run(teacher.path))
    assert [key for key in header if header[key] != other[key]] == ["model"]


@pytest.mark.parametrize("length", [{"epochs": 1.5}, {"epochs": 0, "steps": 8}, {"epochs": 0, "steps": 3}])
def test_part_of_an_epoch_is_taught_by_the_teacher(
    digits_run: Copies, tmp_path: Path, calls: list[int], length: dict[str, float]
) -> None:
    recipe = replace(RECIPE, training=replace(RECIPE.training, **length))  # type: ignore[type-var]
    teacher = digits_run()
    live = train(recipe, tmp_path / "live", teacher=teacher)
    seen, whole = sum(calls), len(files(teacher))
    assert whole == (length.get("steps") != 3)
    calls.clear()
    taped = train(recipe, tmp_path / "taped", teacher=teacher)
    assert sum(calls) == seen - whole * 1347
    assert weights(taped) == weights(live)


def test_two_students_record_one_tape_at_once(digits_run: Copies, tmp_path: Path, calls: list[int]) -> None:
    teacher = digits_run()
    fresh = train(RECIPE, tmp_path / "fresh", teacher=digits_run("alone"))
    students = [
        warm_context().Process(target=train, args=(RECIPE, tmp_path / name), kwargs={"teacher": teacher.path})
        for name in ("first", "second")
    ]
    for student in students:
        student.start()
    for student in students:
        student.join()
    assert {weights(Run(tmp_path / name)) for name in ("first", "second")} == {weights(fresh)}
    calls.clear()
    train(RECIPE, tmp_path / "third", teacher=teacher)
    assert not calls
    assert not [path for path in teacher.path.rglob("tapes/*/*") if path.suffix not in (".logits", ".json")]


def test_student_that_is_killed_leaves_whole_epochs(digits_run: Copies, tmp_path: Path, calls: list[int]) -> None:
    recipe = replace(RECIPE, training=replace(RECIPE.training, epochs=3, images_per_step=64))  # type: ignore[type-var]
    teacher = digits_run()
    student = warm_context().Process(
        target=train, args=(recipe, tmp_path / "student"), kwargs={"teacher": teacher.path}
    )
    student.start()
    wait_for(lambda: len(files(teacher)) == 1)
    student.kill()
    student.join()
    done = len(files(teacher))
    assert done < 3
    calls.clear()
    resumed = train(recipe, tmp_path / "student", teacher=teacher)
    fresh = train(recipe, tmp_path / "fresh", teacher=digits_run("alone"))
    assert weights(resumed) == weights(fresh)
    calls.clear()
    train(recipe, tmp_path / "later", teacher=teacher)  # an epoch that was begun twice may not be recorded
    assert sum(calls) <= 1347
    assert len(files(teacher)) == 3


def test_interrupted_epoch_is_not_recorded(digits_run: Copies, tmp_path: Path) -> None:
    def stop(event: StepEvent) -> None:
        if (event.epoch, event.step) == (1, 3):
            raise InterruptedError

    teacher = digits_run()
    with pytest.raises(InterruptedError):
        train(RECIPE, tmp_path / "student", teacher=teacher, on_step=stop)
    assert len(files(teacher)) == 1
    student = train(RECIPE, tmp_path / "student", teacher=teacher)
    fresh = train(RECIPE, tmp_path / "fresh", teacher=digits_run("again"))
    assert weights(student) == weights(fresh)


def test_large_tapes_are_not_recorded(
    digits_run: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[int]
) -> None:
    monkeypatch.setattr(tapes, "MOST_BYTES", 1000)
    teacher = digits_run()
    train(RECIPE, tmp_path / "student", teacher=teacher)
    assert not (teacher.path / "tapes").exists()
    assert sum(calls) == 2 * 1347


def test_recorded_logits_are_those_of_the_teacher(tmp_path: Path) -> None:
    logits = torch.randn(6, 3)
    tape = Tape(tmp_path, 6, 3, writable=True)
    order = torch.tensor([5, 1, 3, 0, 2, 4])
    for part in order.split(4):
        assert tape.logits(0, part) is None
        tape.record(0, part, logits[part])
    later = Tape(tmp_path, 6, 3, writable=True)
    recorded = later.logits(0, order)
    assert recorded is not None
    assert torch.equal(recorded, logits[order])
    assert later.logits(1, order) is None


def test_teacher_without_write_permission_is_not_recorded(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "missing", 2, 3, writable=False)
    tape.record(0, torch.arange(2), torch.zeros(2, 3))
    assert not (tmp_path / "missing").exists()


def test_timed_steps_are_not_recorded(digits_run: Copies, tmp_path: Path) -> None:
    teacher = digits_run()
    train(RECIPE, tmp_path / "student", teacher=teacher, on_estimate=lambda _: None)
    assert [file.name for file in files(teacher)] == ["epoch-0000.logits", "epoch-0001.logits"]


def test_timed_steps_run_the_teacher_only_where_the_training_does(
    digits_run: Copies, tmp_path: Path, calls: list[int]
) -> None:
    teacher = digits_run()
    live = train(RECIPE, tmp_path / "live", teacher=teacher, on_estimate=lambda _: None)
    assert 2 * 1347 < sum(calls) <= 2 * 1347 + TIMED
    calls.clear()
    taped = train(RECIPE, tmp_path / "taped", teacher=teacher, on_estimate=lambda _: None)
    assert not calls, "a large teacher that does not run would make the estimate many times too long"
    assert weights(taped) == weights(live)
    longer = replace(RECIPE, training=replace(RECIPE.training, epochs=3))  # type: ignore[type-var]
    train(longer, tmp_path / "longer", teacher=teacher, on_estimate=lambda _: None)
    assert 1347 < sum(calls) <= 1347 + TIMED
    assert len(files(teacher)) == 3

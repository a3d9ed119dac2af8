"""The training loop: what a run holds, how it stops and continues, and what it refuses."""

import io
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from radii.datasets import Dataset, Images
from radii.datasets.base import Part
from radii.disk import LockedError
from radii.errors import ParameterError
from radii.estimate import Estimate
from radii.objectives import Terms
from radii.objectives.gaussian import Gaussian
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training import loop
from radii.training.checkpoint import read_checkpoint
from radii.training.loop import StepEvent, train
from radii.training.step import NotFiniteError
from radii.training.timing import StepTime
from tools.processes import start, wait_for, warm_context

SCHEDULE = Training(epochs=3, images_per_step=256, learning_rate=0.05)
SMALL = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=SCHEDULE)
MUON = replace(
    SMALL,
    objective={"name": "consistency", "weight": 5.0, "gaussian_start": 0.3, "weight_ramp": 0.2},
    training=replace(SCHEDULE, optimizer="muon", learning_rate=0.02),
)
HALF_MUON = replace(
    MUON, training=replace(SCHEDULE, epochs=2.5, optimizer="muon", learning_rate=0.02, precision="bfloat16")
)
PHILOX = replace(SMALL, objective={"name": "smoothmix", "steps": 1}, training=replace(SCHEDULE, stream="philox"))


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.weights())


def assert_same_run(first: Run, second: Run) -> None:
    a, b = weights(first), weights(second)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert without_times(first.history()) == without_times(second.history())


def without_times(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows]


def test_trained_run_has_recipe_environment_and_history(tmp_path: Path) -> None:
    run = train(SMALL, tmp_path / "run")
    assert run.recipe.objective == {"name": "gaussian", "copies": 1}
    assert replace(run.recipe, objective={"name": "gaussian"}) == SMALL
    assert run.environment()["versions"]["torch"] == torch.__version__
    rows = run.history()
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    columns = {"seconds", "core_seconds", "learning_rate", "loss", "cross_entropy", "noisy_test_accuracy"}
    assert columns <= rows[0].keys()
    assert float(rows[2]["loss"]) < float(rows[0]["loss"])


def test_training_ends_within_an_epoch(tmp_path: Path) -> None:
    events: list[StepEvent] = []
    run = train(replace(SMALL, training=replace(SCHEDULE, epochs=1.5)), tmp_path / "run", on_step=events.append)
    training = run.recipe.training
    assert training is not None
    assert (training.epochs, training.steps) == (1.5, 9)
    steps = [event for event in events if event.row is None]
    assert [(event.epoch, event.step, event.total) for event in steps[-4:]] == [
        (0, 6, 9),
        (1, 1, 9),
        (1, 2, 9),
        (1, 3, 9),
    ]
    first, last = (float(row["loss"]) for row in run.history())
    assert 0 < last < first  # of the images seen, not of a whole epoch
    assert_same_run(run, train(replace(SMALL, training=replace(SCHEDULE, epochs=0, steps=9)), tmp_path / "again"))


def test_minutes_are_recorded_as_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "time_steps", lambda _: StepTime(step=1.0, slowest=2.0, epoch_end=3.0))
    run = train(SMALL, tmp_path / "run", minutes=0.25)
    training = run.recipe.training
    assert training is not None
    assert training.steps == 7  # 0.95 of 15 seconds, less one measurement, at 1 + 3 / 6 seconds
    monkeypatch.setattr(loop, "time_steps", lambda _: StepTime(step=0.1, slowest=0.1, epoch_end=0.0))
    assert train(SMALL, tmp_path / "run", minutes=0.25).recipe.training == training  # a faster machine continues it


def test_training_is_estimated_before_the_first_step(tmp_path: Path) -> None:
    steps: list[StepEvent] = []

    def refuse(estimate: Estimate) -> None:
        assert 0 < estimate.low < estimate.seconds < estimate.high
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SMALL, tmp_path / "run", on_step=steps.append, on_estimate=refuse)
    assert not steps
    measured = train(SMALL, tmp_path / "run", on_estimate=lambda _: None)
    assert_same_run(measured, train(SMALL, tmp_path / "whole"))  # timing leaves the model as it is


@pytest.mark.parametrize(
    ("recipe", "stop_after"),
    [*((SMALL, stop_after) for stop_after in (1, 6, 7, 11)), (MUON, 7), (HALF_MUON, 9), (PHILOX, 1), (PHILOX, 8)],
)
def test_stopped_run_continues_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Recipe, stop_after: int
) -> None:
    whole = train(recipe, tmp_path / "whole")
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    seen = 0

    def stop(_: StepEvent) -> None:
        nonlocal seen
        seen += 1
        if seen == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "stopped", on_step=stop)
    assert not Run(tmp_path / "stopped").finished
    assert_same_run(whole, train(recipe, tmp_path / "stopped"))


def test_killed_run_of_muon_in_bfloat16_continues_to_the_same_weights(tmp_path: Path) -> None:
    training = warm_context().Process(target=train, args=(HALF_MUON, tmp_path / "killed"))
    training.start()
    wait_for(Run(tmp_path / "killed").history_file.is_file)
    training.kill()
    training.join()
    assert_same_run(train(HALF_MUON, tmp_path / "whole"), train(HALF_MUON, tmp_path / "killed"))


@pytest.mark.parametrize("stop_after", [1, 5, 6, 9])
def test_ctrl_c_ends_the_step_and_saves_it(tmp_path: Path, stop_after: int) -> None:
    whole = train(SMALL, tmp_path / "whole")
    seen = 0

    def stop(_: StepEvent) -> None:
        nonlocal seen
        seen += 1
        if seen == stop_after:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(SMALL, tmp_path / "stopped", on_step=stop)
    assert seen == stop_after
    stopped = Run(tmp_path / "stopped")
    assert not stopped.finished
    rest: list[StepEvent] = []
    train(SMALL, stopped.path, on_step=rest.append)
    # Six steps and the end of an epoch are seen of each of three epochs, but for the one that was stopped.
    assert len(rest) == 3 * 7 - seen - 1
    assert_same_run(whole, stopped)


def test_run_that_is_being_trained_is_locked(tmp_path: Path) -> None:
    def second(event: StepEvent) -> None:
        if event.step == 1:
            with pytest.raises(LockedError, match=f"run is being written by process {os.getpid()}: wait for it"):
                train(SMALL, tmp_path / "run")

    assert_same_run(train(SMALL, tmp_path / "run", on_step=second), train(SMALL, tmp_path / "whole"))


def test_directory_with_an_incomplete_first_file_is_used(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.path.mkdir()
    (run.path / ".recipe.toml.4711").write_text("data")
    (run.path / ".lock").write_text("4711 here")
    run.origin_file.write_text('{"teacher": {"path": "../gone", "hash": "0"}}')
    train(SMALL, run.path)
    assert run.origin() == {}
    assert not list(run.path.glob(".*"))


def test_finished_run_on_a_read_only_disk_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(SMALL, tmp_path / "run")
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "open", None)
    assert train(SMALL, tmp_path / "run").finished


@pytest.mark.slow
@pytest.mark.parametrize("stream", [None, "philox"])
def test_killed_run_continues_to_the_same_weights(tmp_path: Path, stream: str | None) -> None:
    recipe = replace(MUON, training=replace(MUON.training or SCHEDULE, epochs=6, stream=stream))
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    command = ("train", "recipe.toml", "--run", "killed")
    with start(*command, cwd=tmp_path) as process:
        wait_for((tmp_path / "killed" / "checkpoint.pt").is_file)
        process.kill()
    with start(*command, cwd=tmp_path) as process:
        assert process.wait() == 0
    assert_same_run(train(recipe, tmp_path / "whole"), Run(tmp_path / "killed"))


def test_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = weights(train(SMALL, tmp_path / "run"))
    ticks: list[StepEvent] = []
    again = weights(train(SMALL, tmp_path / "run", on_step=ticks.append))
    assert ticks == []
    assert all(torch.equal(first[key], again[key]) for key in first)


def test_run_with_another_recipe_is_refused(tmp_path: Path) -> None:
    train(SMALL, tmp_path / "run")
    with pytest.raises(RunError, match=r"another recipe \(it has sigma = 0.25, not 0.5\)"):
        train(replace(SMALL, sigma=0.5), tmp_path / "run")


def test_directory_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="is not a run"):
        train(SMALL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_non_finite_loss_stops_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    wild = replace(SMALL, training=replace(SCHEDULE, learning_rate=1e12))
    with pytest.raises(NotFiniteError, match=r"epoch 0, step \d+, in the term 'cross_entropy'"):
        train(wild, tmp_path / "run")
    assert not Run(tmp_path / "run").finished


def assert_continues_after_step_3(folder: Path) -> None:
    """Check that the run has a finite checkpoint of step 3, from which it continues to the usual weights."""
    content = read_checkpoint(Run(folder / "run").checkpoint_file)
    assert content is not None
    state = torch.load(io.BytesIO(content), weights_only=True)
    assert state["progress"]["step"] == 3
    assert all(tensor.isfinite().all() for tensor in state["model"].values())
    assert_same_run(train(SMALL, folder / "run"), train(SMALL, folder / "whole"))


def test_weights_of_a_non_finite_loss_are_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    terms, steps = Gaussian.terms, 0

    def bad_in_the_fourth_step(objective: Gaussian, *args: Any) -> Terms:
        nonlocal steps
        steps += 1
        return {name: term * (torch.nan if steps == 4 else 1) for name, term in terms(objective, *args).items()}

    monkeypatch.setattr(Gaussian, "terms", bad_in_the_fourth_step)
    with pytest.raises(NotFiniteError, match=r"the loss is nan at epoch 0, step 3, in the term 'cross_entropy'"):
        train(SMALL, tmp_path / "run")
    monkeypatch.undo()
    assert_continues_after_step_3(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
def test_weights_of_a_gradient_that_is_not_finite_are_never_saved(
    killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of such a step is finite; a checkpoint between it and the next loss would keep its weights."""
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    terms, steps = Gaussian.terms, 0

    def bad_gradient_in_the_fourth_step(objective: Gaussian, *args: Any) -> Terms:
        nonlocal steps
        steps += 1
        values = terms(objective, *args)
        if steps != 4:
            return values
        if killed:
            os.kill(os.getpid(), signal.SIGTERM)
        return {name: term + (term - term.detach()).abs().sqrt() for name, term in values.items()}

    monkeypatch.setattr(Gaussian, "terms", bad_gradient_in_the_fourth_step)
    with pytest.raises(NotFiniteError, match=r"the weight '.*' is not finite after epoch 0, step 3"):
        train(SMALL, tmp_path / "run")
    monkeypatch.undo()
    assert_continues_after_step_3(tmp_path)


def test_tf32_is_refused_on_a_cpu_before_the_run_is_made(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"'tf32' needs an NVIDIA GPU, and the device is 'cpu'. State 'float32'"):
        train(replace(SMALL, training=replace(SCHEDULE, precision="tf32")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_float16_continues_with_its_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(SMALL, training=replace(SCHEDULE, precision="float16", epochs=1))
    whole = train(recipe, tmp_path / "whole")
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)

    def stop(event: StepEvent) -> None:
        if event.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "stopped", on_step=stop)
    content = read_checkpoint(Run(tmp_path / "stopped").checkpoint_file)
    assert content is not None
    scaler = torch.load(io.BytesIO(content), weights_only=True)["scaler"]
    assert scaler["scale"] * 2 ** (3 - scaler["_growth_tracker"]) == 65536.0
    assert_same_run(whole, train(recipe, tmp_path / "stopped"))


def test_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    run = train(SMALL, tmp_path / "run")
    run.weights_file.unlink()
    run.checkpoint_file.write_bytes(b"half")
    with pytest.raises(RunError, match=r"checkpoint.pt cannot be read"):
        train(SMALL, tmp_path / "run")


def test_field_that_an_older_run_does_not_state_has_its_default(tmp_path: Path) -> None:
    recipe = Recipe(
        dataset="digits",
        model="digits_cnn",
        sigma=0.25,
        objective={"name": "smoothadv", "steps": 1},
        training=Training(epochs=1, images_per_step=700, learning_rate=0.05),
    )
    run = train(recipe, tmp_path / "run")
    text = run.recipe_file.read_text()
    assert 'update_on = "all"\n' in text
    run.recipe_file.write_text(text.replace('update_on = "all"\n', ""))
    assert train(recipe, run.path).finished
    with pytest.raises(RunError, match="update_on = 'all', not 'first'"):
        train(replace(recipe, objective={**recipe.objective, "update_on": "first"}), run.path)


def test_training_split_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = train(SMALL, tmp_path / "teacher")
    read, read_parts = Dataset.part, []

    def counted(dataset: Dataset, part: Part) -> Images:
        read_parts.append(part)
        return read(dataset, part)

    monkeypatch.setattr(Dataset, "part", counted)
    train(replace(SMALL, objective={"name": "transfer"}), tmp_path / "student", teacher=teacher)
    assert sorted(read_parts) == ["test", "train"]

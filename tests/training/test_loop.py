import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from radii.disk import LockedError
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training import loop
from radii.training.loop import StepEvent, train
from radii.training.optimizer import learning_rate
from radii.training.step import NotFiniteError

SCHEDULE = Training(epochs=3, images_per_step=256, learning_rate=0.05)
SMALL = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=SCHEDULE)


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.weights())


def assert_same_run(first: Run, second: Run) -> None:
    a, b = weights(first), weights(second)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    rows = [[{k: v for k, v in row.items() if k != "seconds"} for row in run.history()] for run in (first, second)]
    assert rows[0] == rows[1]


def test_a_run_directory_is_complete(tmp_path: Path) -> None:
    run = train(SMALL, tmp_path / "run")
    assert run.recipe.objective == {"name": "gaussian", "copies": 1}
    assert replace(run.recipe, objective={"name": "gaussian"}) == SMALL
    assert run.environment()["versions"]["torch"] == torch.__version__
    rows = run.history()
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert {"seconds", "learning_rate", "loss", "cross_entropy", "noisy_test_accuracy"} <= rows[0].keys()
    assert float(rows[2]["loss"]) < float(rows[0]["loss"])


@pytest.mark.parametrize("stop_after", [1, 6, 7, 11])
def test_a_stopped_run_continues_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    whole = train(SMALL, tmp_path / "whole")
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    seen = 0

    def stop(_: StepEvent) -> None:
        nonlocal seen
        seen += 1
        if seen == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SMALL, tmp_path / "stopped", on_step=stop)
    assert not Run(tmp_path / "stopped").finished
    assert_same_run(whole, train(SMALL, tmp_path / "stopped"))


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


def test_two_cannot_train_in_one_directory(tmp_path: Path) -> None:
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
def test_a_killed_run_continues_to_the_same_weights(tmp_path: Path) -> None:
    recipe = replace(SMALL, training=replace(SCHEDULE, epochs=6))
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    command = [sys.executable, "-m", "radii", "train", "recipe.toml", "--run", "killed"]
    process = subprocess.Popen(command, cwd=tmp_path, env=_one_thread())
    while not (tmp_path / "killed" / "checkpoint.pt").is_file():
        time.sleep(0.02)
        assert process.poll() in (None, 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command, cwd=tmp_path, env=_one_thread(), check=True)
    assert_same_run(train(recipe, tmp_path / "whole"), Run(tmp_path / "killed"))


def _one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = weights(train(SMALL, tmp_path / "run"))
    ticks: list[StepEvent] = []
    again = weights(train(SMALL, tmp_path / "run", on_step=ticks.append))
    assert ticks == []
    assert all(torch.equal(first[key], again[key]) for key in first)


def test_a_directory_of_another_recipe_is_refused(tmp_path: Path) -> None:
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


def test_a_corrupt_checkpoint_is_named(tmp_path: Path) -> None:
    run = train(SMALL, tmp_path / "run")
    run.weights_file.unlink()
    run.checkpoint_file.write_bytes(b"half")
    with pytest.raises(RunError, match=r"checkpoint.pt cannot be read"):
        train(SMALL, tmp_path / "run")


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ({"schedule": "step", "decay_every": 2}, [1, 1, 0.1, 0.1]),
        ({"schedule": "multi_step", "decay_at": (1, 3)}, [1, 0.1, 0.1, 0.01]),
        ({"schedule": "cosine"}, [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]),
    ],
)
def test_learning_rates_decay_at_the_stated_epoch(schedule: dict[str, Any], rates: list[float]) -> None:
    training = Training(epochs=4, images_per_step=1, learning_rate=1.0, **schedule)
    assert [learning_rate(training, epoch, 0.0) for epoch in range(4)] == pytest.approx(rates)


def test_one_cycle_rises_to_the_rate_and_falls_to_zero() -> None:
    training = Training(epochs=10, images_per_step=1, learning_rate=1.0, schedule="one_cycle")
    rates = [learning_rate(training, epoch, share / 10) for epoch in range(10) for share in range(10)]
    assert rates[0] == pytest.approx(0.04)
    assert rates.index(max(rates)) == 30
    assert rates[30] == pytest.approx(1.0)
    assert rates[-1] < 0.01


def test_a_run_begun_before_a_field_of_its_objective_existed_continues_with_the_default_alone(tmp_path: Path) -> None:
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

"""Commands that are stopped by signals, or run twice at the same time."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from radii.runs import certificates
from radii.runs.run import Run
from radii.training.loop import train
from tools.processes import RECIPE, STOPPED, let_work, lines, members, start, wait_for, workers

pytestmark = pytest.mark.stress

CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}
CERTIFY = ("certify", "run", "-q", "--engine", "torch", "--workers", "2")


@pytest.fixture
def run(digits_run: Callable[..., Run]) -> Run:
    return digits_run()


def has_epochs(run: Run, epochs: int) -> bool:
    return run.history_file.is_file() and len(run.history()) == epochs


@pytest.mark.slow
def test_interrupted_training_is_saved_reported_and_continued(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(RECIPE.to_toml())
    run = Run(tmp_path / "run")
    for epochs, (number, code) in enumerate(CODES.items(), start=1):
        with start("train", "small.toml", "-q", "--run", "run", cwd=tmp_path) as process:
            wait_for(partial(has_epochs, run, epochs))
            let_work(process.pid)  # in the next epoch: right after an epoch there is nothing new to save
            before = run.checkpoint_file.stat().st_mtime_ns
            os.killpg(process.pid, number)
            _, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (code, STOPPED)
        assert run.checkpoint_file.stat().st_mtime_ns > before
        assert not run.finished
    train(RECIPE, run.path)
    whole = train(RECIPE, tmp_path / "whole")
    assert run.weights().read_bytes() == whole.weights().read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), CODES.items())
def test_certification_stops_with_its_workers(number: signal.Signals, code: int, run: Run) -> None:
    with start(*CERTIFY, "--set", "estimation=5000", cwd=run.path.parent) as process:
        wait_for(lambda: lines(run) > 3)
        os.killpg(process.pid, number)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (code, STOPPED)
    wait_for(lambda: not members(process.pid))
    (file,) = run.certificates.glob("*.tsv")
    indices = [row.index for row in certificates.read(file).rows]
    assert indices == list(range(len(indices)))


@pytest.mark.slow
def test_killed_worker_does_not_change_the_certificates(run: Run) -> None:
    with start(*CERTIFY, "--max", "40", "--set", "estimation=5000", cwd=run.path.parent) as process:
        wait_for(lambda: lines(run) > 3)
        os.kill(workers(process.pid)[-1], signal.SIGKILL)
        _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")
    (file,) = run.certificates.glob("*.tsv")
    assert [row.index for row in certificates.read(file).rows] == list(range(40))


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_command(run: Run) -> None:
    with start(*CERTIFY, "--set", "estimation=5000", cwd=run.path.parent) as process:
        wait_for(lambda: lines(run) > 1)
        process.kill()
        process.wait()
        began = time.monotonic()
        wait_for(lambda: not members(process.pid))
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_two_commands_at_once_write_every_image_once(run: Run) -> None:
    command = [*CERTIFY[:-1], "1", "--max", "45", "--set", "estimation=2000"]
    home = run.path.parent
    with start(*command, cwd=home) as first, start(*command, cwd=home) as second:
        errors = first.communicate(timeout=120)[1], second.communicate(timeout=120)[1]
    (file,) = run.certificates.glob("*.tsv")
    assert [row.index for row in certificates.read(file).rows] == list(range(45))
    for process, other, error in ((first, second, errors[0]), (second, first, errors[1])):
        message = f"is being written by process {other.pid}: wait for it, or stop it\n"
        assert (process.returncode, error) == (0, "") or (process.returncode == 2 and error.endswith(message))
    assert 0 in (first.returncode, second.returncode)

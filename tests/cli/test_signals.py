"""Commands that are stopped by signals, or run twice at the same time."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from radii.experiment import certificates
from radii.experiment.recipe import Recipe, Training
from radii.experiment.run import Run
from radii.loops.train import train

RECIPE = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.25,
    training=Training(epochs=3, images_per_step=4, learning_rate=0.01),
)
STOPPED = "radii: stopped; the same command continues\n"
CODES = [(signal.SIGTERM, 143), (signal.SIGINT, 130)]


def start(*arguments: str, cwd: Path) -> "subprocess.Popen[str]":
    """A command in its own process group, as a terminal starts one."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "radii", *arguments]
    return subprocess.Popen(
        command, cwd=cwd, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def members(group: int) -> list[str]:
    """The running processes of a group."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], check=True, capture_output=True, text=True).stdout
    found = [line.split() for line in listed.splitlines()]
    return [number for number, state in found if int(number) == group and not state.startswith("Z")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(RECIPE, tmp_path_factory.mktemp("runs") / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), CODES)
def test_interrupted_training_is_saved_reported_and_continued(
    number: signal.Signals, code: int, trained: Run, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(RECIPE.to_toml())
    run = Run(tmp_path / "run")
    with start("train", "small.toml", "--run", "run", cwd=tmp_path) as process:
        wait_for(run.history_file.is_file)
        before = run.checkpoint_file.stat().st_mtime_ns
        os.killpg(process.pid, number)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (code, STOPPED)
    assert run.checkpoint_file.stat().st_mtime_ns > before
    assert not run.finished
    train(RECIPE, run.path)
    assert run.weights().read_bytes() == trained.weights().read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), CODES)
def test_certification_stops_with_its_workers(number: signal.Signals, code: int, trained: Run, tmp_path: Path) -> None:
    run = copied(trained, tmp_path)
    command = ["certify", "run", "--engine", "torch", "--workers", "2", "--set", "estimation=20000"]
    with start(*command, cwd=tmp_path) as process:
        wait_for(lambda: lines(run) > 3)
        os.killpg(process.pid, number)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (code, STOPPED)
    wait_for(lambda: not members(process.pid))
    (file,) = run.certificates.glob("*.tsv")
    indices = [row.index for row in certificates.read(file).rows]
    assert indices == list(range(len(indices)))


@pytest.mark.slow
def test_killed_worker_does_not_change_the_certificates(trained: Run, tmp_path: Path) -> None:
    run = copied(trained, tmp_path)
    command = ["certify", "run", "--engine", "torch", "--workers", "2", "--max", "40", "--set", "estimation=10000"]
    with start(*command, cwd=tmp_path) as process:
        wait_for(lambda: lines(run) > 3)
        os.kill(workers(process.pid)[-1], signal.SIGKILL)
        _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")
    (file,) = run.certificates.glob("*.tsv")
    assert [row.index for row in certificates.read(file).rows] == list(range(40))


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_command(trained: Run, tmp_path: Path) -> None:
    run = copied(trained, tmp_path)
    command = ["certify", "run", "--engine", "torch", "--workers", "2", "--set", "estimation=100000"]
    with start(*command, cwd=tmp_path) as process:
        wait_for(lambda: lines(run) > 1)
        process.kill()
        process.wait()
    began = time.monotonic()
    wait_for(lambda: not members(process.pid))
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_two_commands_at_once_write_every_image_once(trained: Run, tmp_path: Path) -> None:
    run = copied(trained, tmp_path)
    command = ["certify", "run", "--engine", "torch", "--workers", "1", "--max", "45", "--set", "estimation=2000"]
    with start(*command, cwd=tmp_path) as first, start(*command, cwd=tmp_path) as second:
        errors = first.communicate(timeout=120)[1], second.communicate(timeout=120)[1]
    (file,) = run.certificates.glob("*.tsv")
    assert [row.index for row in certificates.read(file).rows] == list(range(45))
    for process, other, error in ((first, second, errors[0]), (second, first, errors[1])):
        message = f"is being written by process {other.pid}: wait for it, or stop it\n"
        assert (process.returncode, error) == (0, "") or (process.returncode == 2 and error.endswith(message))
    assert 0 in (first.returncode, second.returncode)


def copied(trained: Run, folder: Path) -> Run:
    """A run of the same weights without certificates."""
    run = Run(folder / "run")
    run.path.mkdir()
    for path in trained.path.glob("*.*"):
        (run.path / path.name).write_bytes(path.read_bytes())
    return run


def lines(run: Run) -> int:
    return sum(len(path.read_text().splitlines()) for path in run.certificates.glob("*.tsv"))


def workers(parent: int) -> list[int]:
    """The processes that multiprocessing has started for a command: its tracker first, then the workers."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], check=True, capture_output=True, text=True)
    return sorted(map(int, listed.stdout.split()))

"""Start commands in processes of their own, and watch these processes."""

import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from tools.warm import WarmCommand

RECIPE = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.25,
    training=Training(epochs=3, images_per_step=8, learning_rate=0.01),
)
STOPPED = "radii: stopped; the same command continues\n"


def start(*arguments: str, cwd: Path) -> WarmCommand:
    """Start a command in a process group of its own, as a terminal does."""
    return WarmCommand("radii", *arguments, cwd=cwd)


def start_ranks(*arguments: str, cwd: Path, restarts: int = 0) -> WarmCommand:
    """Start a command in two processes by torchrun, which restarts them if one dies."""
    options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts), "-m"]
    return WarmCommand("torch.distributed.run", *options, "--", "radii", *arguments, cwd=cwd)


@cache
def warm_context() -> ForkServerContext:
    """Return a context whose processes are forks of one that has torch and radii loaded, which saves seconds each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "radii.workers.voter", "radii.training.loop"])
    return context


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def let_work(process: int, seconds: float = 0.1) -> None:
    """Wait until a process has used the processor for some seconds more."""
    start = _processor_seconds(process)
    wait_for(lambda: _processor_seconds(process) > start + seconds)


def _processor_seconds(process: int) -> float:
    *_, fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")
    return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def members(group: int) -> list[str]:
    """Return the running processes of a group."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], check=True, capture_output=True, text=True).stdout
    found = [line.split() for line in listed.splitlines()]
    return [number for number, state in found if int(number) == group and not state.startswith("Z")]


def copied(trained: Run, folder: Path) -> Run:
    """Copy a run without its certificates."""
    run = Run(folder / "run")
    run.path.mkdir()
    for path in trained.path.glob("*.*"):
        (run.path / path.name).write_bytes(path.read_bytes())
    return run


def lines(run: Run) -> int:
    return sum(len(path.read_text().splitlines()) for path in run.certificates.glob("*.tsv"))


def alive(processes: Iterable[int]) -> list[int]:
    """Return which of these processes are running."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,stat="], check=True, capture_output=True, text=True).stdout
    states = {int(number): state for number, state in map(str.split, listed.splitlines())}
    return [number for number in processes if not states.get(number, "Z").startswith("Z")]


def workers(parent: int) -> list[int]:
    """Return the child processes of a command: multiprocessing's tracker and the workers, or torchrun's ranks."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], check=False, capture_output=True, text=True)
    return sorted(map(int, listed.stdout.split()))

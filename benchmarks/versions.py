"""The speed of certification of this version against 0.1, both taking turns in one run."""

import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scipy.stats import binom

from benchmarks.timing import machine

BASE = "4cdb838"
"""The last commit of 0.1."""
ROOT = Path(__file__).parents[1]
ROUNDS, IMAGES = 25, 4
SETTINGS = {
    "lenet": (["mnist/gaussian-0.50", "--set", "training.epochs=1"], 10_000),
}
"""A recipe to train with, and the samples of an image."""


def measure(data: Path | None = None) -> dict[str, Any]:
    """Measure the ratio of times of every model, with the interval of its median over the rounds."""
    place = str(data or os.environ["RADII_DATA"])
    with tempfile.TemporaryDirectory() as folder:
        base = _unpacked(Path(folder) / "base")
        ratios = {name: _ratios(name, base, Path(folder), place) for name in SETTINGS}
    return {
        "machine": machine(),
        "base": BASE,
        "rounds": ROUNDS,
        **{name: _told(each) for name, each in ratios.items()},
    }


def _unpacked(folder: Path) -> Path:
    """Return the source of the base version."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", BASE, "src", "recipes"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def _ratios(name: str, base: Path, folder: Path, data: str) -> list[float]:
    """Return the time of this version divided by that of the base for every round; they take turns in going first."""
    recipe, samples = SETTINGS[name]
    ratios = []
    with ExitStack() as stack:
        workers = []
        for root in (base, ROOT):
            run = folder / f"{root.name}-{name}"
            _python(root, ["-m", "radii", "train", *recipe, "--run", str(run), "--data", data])
            command = [str(ROOT / "benchmarks" / "version_worker.py"), str(run), data, str(IMAGES), str(samples)]
            workers.append(stack.enter_context(_server(root, command)))
        for number in range(-2, ROUNDS):  # two rounds to warm up
            order = workers if number % 2 else workers[::-1]
            seconds = {id(worker): _asked(worker) for worker in order}
            if number >= 0:
                ratios.append(seconds[id(workers[1])] / seconds[id(workers[0])])
    return ratios


def _environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}


def _python(root: Path, arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], env=_environment(root), check=True, capture_output=True)


def _server(root: Path, arguments: list[str]) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *arguments], env=_environment(root), stdin=pipe, stdout=pipe, text=True)


def _asked(worker: "subprocess.Popen[str]") -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


def _told(ratios: list[float]) -> dict[str, float]:
    """Return the median ratio with its exact 95 % interval, from the order of the rounds."""
    ordered = sorted(ratios)
    rank = int(binom.ppf(0.025, len(ordered), 0.5))
    return {"median": statistics.median(ordered), "low": ordered[rank - 1], "high": ordered[-rank]}

"""The speed and memory of certification of this version against the last one, both taking turns in one run."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import binom

from benchmarks.timing import machine

BASE = "b0a4887"
"""The last commit of 0.2.0."""
BASE_PACKAGES = ("pooch", "platformdirs", "requests", "packaging")
"""What the base imports and this version does not need."""
ROOT = Path(__file__).parents[1]
LENET = ["mnist/gaussian-0.50", "--set", "training.epochs=1"]
RESNET = ROOT / "results" / "cifar10" / "twelve-epochs" / "consistency"


class Setting(NamedTuple):
    """A recipe to train, or an archived run, and what is certified."""

    run: list[str] | Path
    certifier: dict[str, Any]
    images: int
    every: int
    rounds: int
    engine: str = "torch"
    workers: int = 1


SETTINGS = {
    "LeNet, `fixed`, n = 10,000, 5 images": Setting(LENET, {"name": "fixed", "estimation": 10_000}, 5, 20, 9),
    "ResNet-20, `fixed`, n = 2,000, 3 images": Setting(RESNET, {"name": "fixed", "estimation": 2_000}, 3, 20, 6),
    "LeNet, `sequential`, radius 0.5, 500 images, `openvino`, two workers with their start": Setting(
        LENET, {"name": "sequential", "radii": [0.5]}, 500, 20, 6, "openvino", 2
    ),
}


def measure(data: Path | None = None) -> dict[str, Any]:
    """Measure the ratio of times of every setting, with the interval of its median over the rounds."""
    place = str(data or os.environ["RADII_DATA"])
    with tempfile.TemporaryDirectory() as folder:
        base = _unpacked(Path(folder) / "base")
        ratios = {name: _ratios(setting, base, Path(folder), place) for name, setting in SETTINGS.items()}
    return {"machine": machine(), "base": BASE, "settings": ratios}


def _unpacked(folder: Path) -> Path:
    """Return the source of the base version, with the packages that only it needs in its `packages`."""
    folder.mkdir()
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder / "packages"),
        *BASE_PACKAGES,
    ]
    subprocess.run(pip, check=True)
    archive = subprocess.run(["git", "archive", BASE, "src", "recipes"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def _ratios(setting: Setting, base: Path, folder: Path, data: str) -> dict[str, Any]:
    """Return the time of this version over that of the base for every round; they take turns in going first."""
    run, images, every, rounds = setting.run, setting.images, setting.every, setting.rounds
    weights = folder / "lenet" if isinstance(run, list) else run
    if isinstance(run, list) and not weights.exists():
        _python(base, ["-m", "radii", "train", *run, "--run", str(weights), "--data", data])
    ratios, memory = [], [0.0, 0.0]
    with ExitStack() as stack:
        workers = []
        for root in (base, ROOT):
            own = folder / f"{root.name}-run"
            shutil.rmtree(own, ignore_errors=True)
            shutil.copytree(weights, own, ignore=shutil.ignore_patterns("certificates", "engine.json"))
            worker = str(ROOT / "benchmarks" / "version_worker.py")
            options = {"engine": setting.engine, "workers": setting.workers, "certifier": setting.certifier}
            command = [worker, str(own), data, str(images), str(every), json.dumps(options)]
            workers.append(stack.enter_context(_server(root, command)))
        for number in range(-1, rounds):  # one round to warm up
            seconds = [0.0, 0.0]
            for which in (0, 1) if number % 2 else (1, 0):
                seconds[which], memory[which] = _asked(workers[which])
            if number >= 0:
                ratios.append(seconds[1] / seconds[0])
    return {**_interval(ratios), "rounds": rounds, "megabytes": memory}


def _environment(root: Path) -> dict[str, str]:
    path = os.pathsep.join([str(root / "src"), str(root / "packages")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _python(root: Path, arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], env=_environment(root), check=True, capture_output=True)


def _server(root: Path, arguments: list[str]) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *arguments], env=_environment(root), stdin=pipe, stdout=pipe, text=True)


def _asked(worker: "subprocess.Popen[str]") -> tuple[float, float]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(file=worker.stdin, flush=True)
    seconds, megabytes = worker.stdout.readline().split()
    return float(seconds), float(megabytes)


def _interval(ratios: list[float]) -> dict[str, float]:
    """Return the median ratio with its exact 95 % interval, from the order of the rounds."""
    ordered = sorted(ratios)
    rank = int(binom.ppf(0.025, len(ordered), 0.5))
    return {"median": statistics.median(ordered), "low": ordered[rank - 1], "high": ordered[-rank]}

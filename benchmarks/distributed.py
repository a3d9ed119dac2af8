"""Training in two processes of one thread each, against one process of two threads and of one."""

import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.timing import machine
from radii import models, objectives
from radii.datasets.base import InMemory
from radii.objectives import Step
from radii.runs.recipe import Training
from radii.smoothing.addresses import generator
from radii.smoothing.forward import channels_last
from radii.training.batches import batches, prefetch
from radii.training.ddp import World, join_world, leave_world
from radii.training.optimizer import make_optimizer
from radii.training.step import Loss, gradient_step


class Case(NamedTuple):
    shape: tuple[int, int, int]
    images_per_step: int
    steps: int


CASES = {"lenet": Case((1, 28, 28), 256, 40), "cifar_resnet20": Case((3, 32, 32), 128, 12)}
ALONE = [sys.executable, "-m", "benchmarks.distributed"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
CANDIDATES = {
    "one process, one thread": (ALONE, 1),
    "one process, two threads": (ALONE, 2),
    "two processes, one thread each": ([*TORCHRUN, "benchmarks.distributed"], 1),
}


def measure(_: Path | None = None, rounds: int = 3) -> dict[str, Any]:
    """Measure seconds of a step of Gaussian training, batching included, with 1 or 2 threads and with 2 processes."""
    found: dict[str, dict[str, list[float]]] = {case: {name: [] for name in CANDIDATES} for case in CASES}
    for _round in range(rounds):
        for name, (command, threads) in CANDIDATES.items():
            for case, seconds in _measured(command, threads).items():
                found[case][name].append(seconds)
    return {"machine": machine(), **{case: _ratios(times) for case, times in found.items()}}


def _measured(command: list[str], threads: int) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def _ratios(times: dict[str, list[float]]) -> dict[str, Any]:
    seconds = {name: statistics.median(values) for name, values in times.items()}
    pair = seconds["two processes, one thread each"]
    return {"seconds_per_step": seconds, "speed_up": {name: each / pair for name, each in seconds.items()}}


def seconds_per_step(name: str, case: Case, world: World) -> float:
    """Return the median time of a step as the training loop makes it."""
    rng = generator("cpu", "measure", 0)
    count = case.images_per_step * (case.steps + 4)
    pixels = torch.randint(0, 256, (count, *case.shape), generator=rng, dtype=torch.uint8)
    images = InMemory(pixels, torch.randint(0, 10, (count,), generator=rng), augmented=case.shape[0] == 3)
    training = Training(epochs=1, images_per_step=case.images_per_step, learning_rate=1e-4)
    model = channels_last(models.create(name))
    optimizer = make_optimizer(training, model)
    loss = world.wrap(Loss(objectives.create("gaussian", sigma=0.25), model))
    clocks = []
    loaded = batches(images, training, seed=0, epoch=0, first=0, world=world)
    for number, local in enumerate(prefetch(loaded, images)):
        step = Step(0, generator("cpu", "train", *world.address(0, 0, number)))
        gradient_step(loss, optimizer, local, step, world=world)
        clocks.append(time.perf_counter())
    return statistics.median(after - before for before, after in pairwise(clocks[3:]))


def main() -> None:
    """Print the seconds of a step of each case, in the first process of however many there are."""
    world = join_world()
    seconds = {name: seconds_per_step(name, case, world) for name, case in CASES.items()}
    if world.is_rank0:
        print(json.dumps(seconds))
    leave_world()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

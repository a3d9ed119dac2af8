"""Item 23: trainings by several processes, of which one is killed."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from radii.runs.recipe import Training
from radii.runs.run import Run
from tools.processes import RECIPE, alive, start_ranks, wait_for, workers
from tools.stress.outcome import Effort, Outcome

EPOCHS = 8
ATTACKED = replace(
    RECIPE,
    model={"name": "cifar_resnet20", "width": 2},
    objective={"name": "smoothadv", "steps": 1, "copies": 1},
    training=Training(epochs=EPOCHS, images_per_step=301, learning_rate=0.05),
)
"""An attack is in eval mode: it needs the running statistics that a checkpoint keeps."""


def ranks(effort: Effort) -> Outcome:
    """`radii train` in two processes that torchrun started, with an attack and BatchNorm; a random one killed with -9
    at a random moment, from the start of Python on, and both started again by torchrun: weights and rows of
    training.csv against those of a training that nobody disturbed, and processes that are left."""
    (effort.folder / "recipe.toml").write_text(ATTACKED.to_toml())
    rng = random.Random(effort.seed)
    bad: dict[str, list[str]] = {"other results": [], "failed trainings": [], "orphans after 5 s": []}
    whole, _ = _train("whole", effort.folder, None, bad)
    kills = effort.times(20, 1)
    restored = 0
    for number in range(kills):
        run, again = _train(f"run-{number}", effort.folder, rng, bad)
        restored += again
        bad["other results"] += [] if run.finished and _result(run) == _result(whole) else [run.name]
    return Outcome({"killed ranks": kills}, bad, f"{restored} continued from a checkpoint")


def _train(name: str, folder: Path, rng: random.Random | None, bad: dict[str, list[str]]) -> tuple[Run, bool]:
    """A run trained to its end, with a kill on the way; whether there was a checkpoint then."""
    run, saved = Run(folder / name), False
    with start_ranks("train", "recipe.toml", "--run", name, cwd=folder, restarts=3) as launcher:
        seen: list[int] = []
        if rng is not None:
            seen, saved = _killed(launcher, run, rng)
        _, error = launcher.communicate(timeout=300)
    if launcher.returncode or not run.finished:
        bad["failed trainings"].append(f"{name}: {launcher.returncode}, {error[-300:]!r}")
    deadline = time.monotonic() + 5
    while alive(seen) and time.monotonic() < deadline:
        time.sleep(0.05)
    bad["orphans after 5 s"] += [f"{name}: {process}" for process in alive(seen)]
    return run, saved


def _killed(launcher: "subprocess.Popen[str]", run: Run, rng: random.Random) -> tuple[list[int], bool]:
    """Kill one of the ranks: one of four times while they start, else after a random epoch; the ranks there were."""
    wait_for(lambda: len(workers(launcher.pid)) == 2)
    pair = workers(launcher.pid)
    if rng.randrange(4):
        epochs = rng.randrange(1, EPOCHS - 2)
        wait_for(lambda: len(run.history()) >= epochs)
        time.sleep(rng.uniform(0, 0.1))
    else:
        time.sleep(rng.uniform(0, 2))
    with suppress(ProcessLookupError):
        os.kill(rng.choice(pair), signal.SIGKILL)
    return pair, run.checkpoint_file.is_file()


def _result(run: Run) -> tuple[bytes, list[dict[str, str]]]:
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in run.history()]
    return run.weights().read_bytes(), rows

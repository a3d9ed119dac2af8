"""Items 16, 17, 22 and 23: commands, workers and ranks that are stopped or killed."""

import os
import random
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.runs import certificates
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training.checkpoint import TrainState
from radii.training.loop import train
from radii.workers.cluster import cluster_executor
from tools.cluster import DaskCluster, dask_cluster, without_times
from tools.crash_points import COMMANDS, kill_at_every_write
from tools.mapping import map_in_processes
from tools.processes import RECIPE, STOPPED, alive, copied, lines, members, start, start_ranks, wait_for, workers
from tools.stress.outcome import Effort, Outcome
from tools.warm import WarmCommand

ORPHAN_SECONDS = 5.0
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


def stops(effort: Effort) -> Outcome:
    """`radii certify` with two workers is ended by kill -9, SIGTERM and Ctrl-C while it writes, and workers of a pool
    are killed while they work: no process may be left after five seconds, exit codes and messages must be right, and no
    row lost or doubled."""
    bad: dict[str, list[str]] = {"orphans after 5 s": [], "wrong exit codes or messages": [], "lost or doubled": []}
    trained = train(RECIPE, effort.folder / "trained")
    numbers = [signal.SIGTERM] if effort.short else list(CODES)
    for attempt in range(1):
        for number in numbers:
            _stop(trained, effort.folder / f"{attempt}-{number}", number, bad)
    killed = effort.times(20, 2)
    items = [effort.folder / f"item-{number}" for number in range(killed)]
    results = list(map_in_processes(killed_once, items, 2))
    bad["lost or doubled"] += [] if results == [path.name for path in items] else ["results of killed workers"]
    return Outcome({"stops": 1 * len(numbers), "killed workers": killed}, bad)


def killed_once(path: Path) -> str:
    """Kill the own process the first time, and return the name the second time."""
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name


def _stop(trained: Run, folder: Path, number: signal.Signals, bad: dict[str, list[str]]) -> None:
    folder.mkdir()
    run = copied(trained, folder)
    command = ["certify", "run", "-q", "--engine", "torch", "--workers", "2", "--set", "estimation=20000"]
    with start(*command, cwd=folder) as process:
        wait_for(lambda: lines(run) > 2)
        process.kill() if number == signal.SIGKILL else os.killpg(process.pid, number)
        _, error = process.communicate(timeout=60)
    if not _gone(process.pid):
        bad["orphans after 5 s"].append(number.name)
    if process.returncode != CODES[number] or error not in ("", STOPPED) or (number != signal.SIGKILL and not error):
        bad["wrong exit codes or messages"].append(f"{number.name}: {process.returncode}, {error!r}")
    (file,) = run.certificates.glob("*.tsv")
    indices = [row.index for row in certificates.read(file).rows]
    bad["lost or doubled"] += [] if indices == list(range(len(indices))) else [f"{number.name}: {indices}"]


def _gone(group: int) -> bool:
    """Return whether all processes of a group end in time."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    while members(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


QUICK = ["trust"]


def crashes(effort: Effort) -> Outcome:
    """Every command is killed in the middle of each of its writes in turn, and given again: the result must be that of
    a command that was not killed. Checkpoints with one flipped bit must be refused, and the one before them used."""
    results = kill_at_every_write(effort.folder, *(QUICK if effort.short else COMMANDS))
    unrecovered = [f"{name}, write {point[0]}" for name, result in results.items() for point in result["bad"]]
    flips = effort.times(5_000, 50)
    loaded = _flip_bits(effort, flips)
    points = sum(result["points"] for result in results.values())
    counts = {"commands": len(results), "kills": points, "flipped bits": flips}
    return Outcome(counts, {"not recovered": unrecovered, "damaged checkpoints used": loaded})


def _flip_bits(effort: Effort, flips: int) -> list[str]:
    """Damage checkpoints, and return the ones that were used all the same."""
    run, rng = Run(effort.folder / "run"), random.Random(effort.seed)
    training = Training(epochs=3, images_per_step=8, learning_rate=0.1)
    run.claim(Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training), {})
    for epoch in (1, 2):
        _state_after(epoch).save(run)
    used, whole = [], run.checkpoint_file.read_bytes()
    for _ in range(flips):
        place, bit = rng.randrange(len(whole)), rng.randrange(8)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        run.checkpoint_file.write_bytes(damaged)
        state = _state_after(0)
        state.restore(run)
        used += [] if state.epoch == 1 else [f"byte {place}, bit {bit}"]
    return used


def _state_after(epoch: int) -> TrainState:
    """Return a training state after some epochs."""
    torch.manual_seed(epoch)
    model = nn.Linear(4, 3)
    state = TrainState(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for number in range(epoch):
        state.close_epoch({"epoch": number, "seconds": 1.5, "loss": 1.0 / (1 + number)})
    return state


def killed_workers(effort: Effort) -> Outcome:
    """`radii certify` on a Dask cluster of two workers, one of which is killed with -9 at a random moment: the rows
    must be those of one process, in the same order."""
    run = train(RECIPE, effort.folder / "trained")
    fixed = certifiers.create("fixed", selection=100, estimation=5000)
    config = CertificationConfig(run=run.path, certifier=fixed, every=15, engine="torch")
    path = certify_run(config, workers=1)
    alone, rng, times = without_times(path), random.Random(effort.seed), effort.times(8, 2)
    bad: dict[str, list[str]] = {"results that differ": []}
    with dask_cluster() as cluster, cluster_executor(cluster.address) as executor:
        for number in range(times):
            path.unlink()
            kill = Kill(cluster, rng.randrange(1, len(alone) - 4), rng.random() / 4)
            certify_run(config, executor=executor, on_image=kill)
            kill.timer.join()
            if without_times(path) != alone:
                bad["results that differ"].append(f"run {number}")
    return Outcome({"runs with a killed worker": times, "images in each": len(alone)}, bad)


class Kill:
    """A callback for every image that kills a worker `seconds` after `after` images."""

    def __init__(self, cluster: DaskCluster, after: int, seconds: float) -> None:
        self.left = after
        self.timer = threading.Timer(seconds, cluster.kill, (after,))

    def __call__(self, *_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.timer.start()


ATTACKED = replace(
    RECIPE,
    model={"name": "cifar_resnet20", "width": 2},
    objective={"name": "smoothadv", "steps": 1, "copies": 1},
)
"""With an attack, which is made in eval mode and needs the running statistics of the checkpoint."""


def ranks(effort: Effort) -> Outcome:
    """`radii train` in two processes of torchrun, with an attack and BatchNorm: a random one is killed with -9 at a
    random moment, and torchrun starts both again. Weights and training.csv must equal those of a training without a
    kill, and no process may be left."""
    epochs = effort.times(8, 4)
    training = Training(epochs=epochs, images_per_step=301, learning_rate=0.05)
    (effort.folder / "recipe.toml").write_text(replace(ATTACKED, training=training).to_toml())
    rng = random.Random(effort.seed)
    bad: dict[str, list[str]] = {"other results": [], "failed trainings": [], "orphans after 5 s": []}
    whole, _ = _train_in_ranks("whole", effort.folder, None, epochs, bad)
    kills = effort.times(4, 1)
    restored = 0
    for number in range(kills):
        run, again = _train_in_ranks(f"run-{number}", effort.folder, rng, epochs, bad)
        restored += again
        bad["other results"] += (
            [] if run.finished and _weights_and_history(run) == _weights_and_history(whole) else [run.name]
        )
    return Outcome({"killed ranks": kills}, bad, f"{restored} continued from a checkpoint")


def _train_in_ranks(
    name: str, folder: Path, rng: random.Random | None, epochs: int, bad: dict[str, list[str]]
) -> tuple[Run, bool]:
    """Train a run with a kill on the way; return it, and whether there was a checkpoint at the kill."""
    run, saved = Run(folder / name), False
    with start_ranks("train", "recipe.toml", "--run", name, cwd=folder, restarts=3) as launcher:
        seen: list[int] = []
        if rng is not None:
            seen, saved = _kill_a_rank(launcher, run, rng, epochs)
        _, error = launcher.communicate(timeout=300)
    if launcher.returncode or not run.finished:
        bad["failed trainings"].append(f"{name}: {launcher.returncode}, {error[-300:]!r}")
    deadline = time.monotonic() + 5
    while alive(seen) and time.monotonic() < deadline:
        time.sleep(0.05)
    bad["orphans after 5 s"] += [f"{name}: {process}" for process in alive(seen)]
    return run, saved


def _kill_a_rank(launcher: WarmCommand, run: Run, rng: random.Random, epochs: int) -> tuple[list[int], bool]:
    """Kill a rank, one time in four while it starts and otherwise after a random epoch; return the ranks before."""
    wait_for(lambda: len(workers(launcher.pid)) == 2)
    pair = workers(launcher.pid)
    if rng.randrange(4):
        done = rng.randrange(1, epochs - 2)
        wait_for(lambda: len(run.history()) >= done)
        time.sleep(rng.uniform(0, 0.1))
    else:
        time.sleep(rng.uniform(0, 2))
    with suppress(ProcessLookupError):
        os.kill(rng.choice(pair), signal.SIGKILL)
    return pair, run.checkpoint_file.is_file()


def _weights_and_history(run: Run) -> tuple[bytes, list[dict[str, str]]]:
    rows = [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in run.history()]
    return run.weights().read_bytes(), rows

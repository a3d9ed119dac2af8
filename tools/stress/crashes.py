"""Item 17: kills at every write, and checkpoints with a flipped bit."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training.checkpoint import TrainState
from tools.crash_points import COMMANDS
from tools.stress.outcome import Effort, Outcome

ROOT = Path(__file__).parents[2]
QUICK = ["trust"]


def crashes(effort: Effort) -> Outcome:
    """Every command killed at each of its writes in turn, in the middle of it, and given again: the end must be that
    of an unbroken command. Checkpoints with one bit flipped: each must be refused and the one before it used."""
    found = {command: _killed(command, effort) for command in (QUICK if effort.short else COMMANDS)}
    unrecovered = [f"{name}, write {point[0]}" for name, each in found.items() for point in each["bad"]]
    flips = effort.times(5_000, 50)
    loaded = _flipped(effort, flips)
    points = sum(each["points"] for each in found.values())
    counts = {"commands": len(found), "points to be killed at": points, "flipped bits": flips}
    return Outcome(counts, {"not recovered": unrecovered, "damaged checkpoints used": loaded})


def _killed(command: str, effort: Effort) -> dict[str, Any]:
    folder = effort.folder / command
    folder.mkdir()
    arguments = [sys.executable, "-m", "tools.crash_points", command, str(folder)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _flipped(effort: Effort, flips: int) -> list[str]:
    """The damaged checkpoints that were not refused for the one before."""
    run, rng = Run(effort.folder / "run"), random.Random(effort.seed)
    training = Training(epochs=3, images_per_step=8, learning_rate=0.1)
    run.claim(Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training), {})
    for epoch in (1, 2):
        _at(epoch).save(run)
    used, whole = [], run.checkpoint_file.read_bytes()
    for _ in range(flips):
        place, bit = rng.randrange(len(whole)), rng.randrange(8)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        run.checkpoint_file.write_bytes(damaged)
        state = _at(0)
        state.restore(run)
        used += [] if state.epoch == 1 else [f"byte {place}, bit {bit}"]
    return used


def _at(epoch: int) -> TrainState:
    """A state after some epochs."""
    torch.manual_seed(epoch)
    model = nn.Linear(4, 3)
    state = TrainState(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for number in range(epoch):
        state.close_epoch({"epoch": number, "seconds": 1.5, "loss": 1.0 / (1 + number)})
    return state

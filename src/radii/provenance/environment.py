"""The versions and the kind of machine that a run was made with; nothing identifies the machine."""

import os
import platform
from importlib import metadata
from typing import Any

import torch

from radii.device import default_device
from radii.runs import files
from radii.runs.run import Run


def environment() -> dict[str, Any]:
    names = ("radii", "torch", "numpy", "scipy", "safetensors")
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": default_device().type,
        "versions": {name: metadata.version(name) for name in names},
    }


def record_environment(run: Run, processes: int, epoch: int, step: int) -> None:
    """Write environment.json, with the number of processes that trained the run from each step on.

    Noise has addresses of its own in every process, so a run that another number of processes continues is not the
    run that one number of processes would have made.
    """
    before = [each for each in _processes(run) if (each["epoch"], each["step"]) < (epoch, step)]
    if not before or before[-1]["processes"] != processes:
        before.append({"epoch": epoch, "step": step, "processes": processes})
    files.write_json(run.environment_file, {**environment(), "training": before})


def _processes(run: Run) -> list[dict[str, int]]:
    """What was recorded before; a run without a record was trained by one process."""
    found = run.environment() if run.environment_file.is_file() else {}
    recorded: list[dict[str, int]] = found.get("training", [{"epoch": 0, "step": 0, "processes": 1}])
    return recorded

"""Timing on a shared machine: candidates take turns, and the median of each is reported."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch


def take_turns(
    candidates: Mapping[str, Callable[[], object]],
    rounds: int,
    warmups: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of a call of each candidate, measured turn by turn."""
    for call in candidates.values():
        for _ in range(warmups):
            call()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            began = clock()
            call()
            seconds[name].append(clock() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def machine() -> dict[str, Any]:
    """Return the kind of machine that a number was measured on."""
    return {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


def start_of_peak() -> float:
    """Reset the peak memory of this process; returns the memory in use, in megabytes. Linux only."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_megabytes()


def peak_megabytes() -> float:
    """Return the peak memory of this process since `start_of_peak`, in megabytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024

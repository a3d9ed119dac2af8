"""The device that work runs on."""

import os

import torch


def default_device() -> torch.device:
    """A GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def default_workers() -> int:
    """One worker process for each GPU; without one, for each core."""
    return torch.cuda.device_count() if default_device().type == "cuda" else os.cpu_count() or 1


def worker_variables() -> list[dict[str, str]]:
    """The environment variables that give every worker process a GPU of its own; none without several GPUs.

    Workers beyond the number of GPUs share them in turn.
    """
    count = torch.cuda.device_count() if default_device().type == "cuda" else 0
    if count < 2:
        return []
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in (visible or map(str, range(count)))][:count]

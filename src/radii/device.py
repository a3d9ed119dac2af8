"""The device that work runs on."""

import os

import torch

from radii.errors import ParameterError

VARIABLE = "RADII_DEVICE"
"""The environment variable that names the device: worker processes inherit it."""


def default_device() -> torch.device:
    """The device that RADII_DEVICE names; by default a GPU where there is one, else the CPU."""
    named = os.environ.get(VARIABLE)
    if not named:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if named not in (here := available()):
        raise ParameterError(f"there is no device {named!r} here, expected one of: {', '.join(here)}", "device")
    return torch.device(named)


def available() -> list[str]:
    """The names of the devices that this machine has."""
    cuda = ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    return ["cpu", *(cuda if has_cuda else ()), *(["mps"] if has_mps else ())]


def default_workers() -> int:
    """One worker process for each GPU; without one, for each core."""
    if default_device().type == "cpu":
        return os.cpu_count() or 1
    return max(1, len(worker_variables()))


def worker_variables() -> list[dict[str, str]]:
    """The environment variables that give every worker process a GPU of its own; none unless there are several.

    Workers beyond the number of GPUs share them in turn. A device that was named by its number is used alone.
    """
    count = torch.cuda.device_count() if default_device() == torch.device("cuda") else 0
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    names = (visible or [str(number) for number in range(count)])[:count]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names] if count > 1 else []

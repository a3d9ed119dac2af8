"""Choose the device and the number of worker processes, and keep memory between steps."""

import ctypes
import os
import sys

import torch

from radii.errors import ParameterError

VARIABLE = "RADII_DEVICE"
"""The environment variable that names the device; worker processes inherit it."""
MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
DASK_MALLOC = {"MALLOC_TRIM_THRESHOLD_": "65536"}
"""The setting of Dask for its workers. With it, returning memory takes as long as a forward pass."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""From malloc.h."""
KEPT_BYTES = (1 << 31) - 1
MAPPED_BYTES = (1 << 30, 1 << 25)
"""Memory blocks of this size and above are never kept; glibc before 2.35 allows at most the second size."""


def default_device() -> torch.device:
    """Return the device that RADII_DEVICE names; by default a GPU if there is one, else the CPU.

    If torchrun started several processes, every one gets its own GPU.
    """
    named = os.environ.get(VARIABLE)
    if named and named not in (here := available()):
        raise ParameterError(f"there is no device {named!r} here, expected one of: {', '.join(here)}", "device")
    device = torch.device(named or ("cuda" if torch.cuda.is_available() else "cpu"))
    rank = _local_rank()
    return torch.device("cuda", rank) if rank is not None and device == torch.device("cuda") else device


def _local_rank() -> int | None:
    """Return the number of this process on its machine, if torchrun started several."""
    several = "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"
    return int(os.environ["LOCAL_RANK"]) if several else None


def available() -> list[str]:
    """Return the names of the devices of this machine."""
    cuda = ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    return ["cpu", *(cuda if has_cuda else ()), *(["mps"] if has_mps else ())]


def usable_cores() -> int:
    """Return the number of cores that this process may use, which a container or taskset may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_workers(device: torch.device | None = None) -> int:
    """Return the number of workers of a device, by default the default one: a worker for each GPU, or for each core."""
    if (device or default_device()).type == "cpu":
        return usable_cores()
    return max(1, len(worker_variables()))


def worker_variables() -> list[dict[str, str]]:
    """Return environment variables that give every worker process its own GPU; none unless there are several.

    If there are more workers than GPUs, several share one. A GPU that RADII_DEVICE names by its number is used alone.
    """
    count = torch.cuda.device_count() if default_device() == torch.device("cuda") else 0
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    names = (visible or [str(number) for number in range(count)])[:count]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names] if count > 1 else []


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a device's memory; None if it does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return max(0, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return None


def wait_for(device: torch.device) -> None:
    """Wait until a device has done what it was given, before a clock is read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def keep_freed_memory() -> None:
    """Stop glibc from returning freed memory after every step; malloc settings in the environment are respected.

    Otherwise the system clears the same memory again for every step, which takes up to a quarter of its time. The
    process uses no more memory than at its peak.
    """
    if sys.platform != "linux" or _malloc_is_configured():
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # Setting M_TRIM_THRESHOLD alone fixes M_MMAP_THRESHOLD at its lowest value: then every tensor is mapped, not kept.
    if mallopt and any(mallopt(M_MMAP_THRESHOLD, size) for size in MAPPED_BYTES):
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def _malloc_is_configured() -> bool:
    """Return whether the environment configures malloc in another way than Dask does for its workers."""
    stated = {name: os.environ[name] for name in MALLOC_VARIABLES if name in os.environ}
    return stated not in ({}, DASK_MALLOC) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")

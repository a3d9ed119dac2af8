"""The C library keeps the memory of freed tensors for the next ones, where it would return it to the system."""

import ctypes
import os
import sys

VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
OF_DASK = {"MALLOC_TRIM_THRESHOLD_": "65536"}
"""What Dask sets for its workers, which is worse still: it takes as long again as a forward pass."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""From malloc.h."""
KEPT_BYTES, MAPPED_BYTES = (1 << 31) - 1, (1 << 30, 1 << 25)
"""How much free memory is kept, and from which size on memory is never kept: the second is the most that glibc took
before 2.35."""


def keep_freed_memory() -> None:
    """Keep what a step or a block has freed for the next one, in this process; values of the environment stay.

    Otherwise glibc returns it after every step, and the system has to clear the same memory again: up to a quarter of
    the time of a step. The process uses no more than it has used at its peak.
    """
    if sys.platform != "linux" or _chosen():
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # Without the first, the second would fix the size at its lowest: all tensors would be mapped anew.
    if mallopt and any(mallopt(M_MMAP_THRESHOLD, size) for size in MAPPED_BYTES):
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def _chosen() -> bool:
    """Whether somebody other than Dask has set how memory is kept."""
    stated = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return stated not in ({}, OF_DASK) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")

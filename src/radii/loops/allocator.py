"""The C library keeps the memory of freed tensors, as it does by itself, where a launcher has told it to return it."""

import ctypes
import os

VARIABLE = "MALLOC_TRIM_THRESHOLD_"
OF_DASK = "65536"
"""What Dask sets for its workers. Every tensor of a forward pass then gets new memory from the system, which has to be
cleared first: that takes as long again as the pass."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""From malloc.h."""
KEPT_BYTES, MAPPED_BYTES = 1 << 28, 1 << 25
"""How much free memory is kept, and from which size on memory is never kept: the largest that glibc chooses itself."""


def keep_freed_memory() -> None:
    """Undo Dask's setting in this process; another value was chosen by somebody, and stays."""
    if os.environ.get(VARIABLE) != OF_DASK:
        return
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)

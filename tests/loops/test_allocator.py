"""Freed memory is kept for the next step; what somebody has set for malloc stays, unless it is Dask's own value."""

import os
import subprocess
import sys

import pytest

PAGE_FAULTS = """
import resource, torch
from radii.loops.allocator import keep_freed_memory

keep_freed_memory()
def step():
    tensors = [torch.ones(1 << 20) for _ in range(60)]

for _ in range(4):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has this setting")
@pytest.mark.parametrize(("threshold", "kept"), [(None, True), ("65536", True), ("65537", False)])
def test_memory_of_freed_tensors_is_kept(threshold: str | None, kept: bool) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    variables |= {"OMP_NUM_THREADS": "1"} | ({"MALLOC_TRIM_THRESHOLD_": threshold} if threshold else {})
    command = [sys.executable, "-c", PAGE_FAULTS]
    faults = int(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    assert (faults < 1024) == kept  # one tensor has 1,024 pages

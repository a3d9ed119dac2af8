"""What a launcher has set for malloc is undone only where it is Dask's own value."""

import os
import subprocess
import sys

import pytest

PAGE_FAULTS = """
import resource, torch
from radii.loops.allocator import keep_freed_memory

keep_freed_memory()
for _ in range(20):
    torch.ones(1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(1 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has this setting")
@pytest.mark.parametrize(("threshold", "kept"), [("65536", True), ("65537", False)])
def test_memory_of_freed_tensors_is_kept(threshold: str, kept: bool) -> None:
    variables = {**os.environ, "MALLOC_TRIM_THRESHOLD_": threshold, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PAGE_FAULTS]
    faults = int(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    assert (faults < 1024) == kept  # one tensor has 1,024 pages

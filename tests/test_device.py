"""Freed memory is kept for the next step; malloc settings of the environment stay, unless Dask has set them."""

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from radii import device

PAGE_FAULTS = """
import resource, sys
from types import SimpleNamespace

sys.modules["torch"] = SimpleNamespace(device=object)  # loading it would take most of the time
from radii.device import keep_freed_memory

keep_freed_memory()
def step():
    tensors = [bytes([1]) * (1 << 22) for _ in range(60)]

for _ in range(4):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has this setting")
@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        ({}, True),
        ({"MALLOC_TRIM_THRESHOLD_": "65536"}, True),
        ({"MALLOC_TRIM_THRESHOLD_": "65537"}, False),
        ({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=65536"}, False),
    ],
)
def test_memory_of_freed_tensors_is_kept(stated: dict[str, str], kept: bool) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    variables |= {"OMP_NUM_THREADS": "1", **stated}
    command = [sys.executable, "-c", PAGE_FAULTS]
    faults = int(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    assert (faults < 1024) == kept  # one tensor has 1,024 pages


@pytest.mark.parametrize(("most", "calls"), [(1 << 30, [-3, -1]), (1 << 25, [-3, -3, -1]), (0, [-3, -3])])
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has this setting")
def test_memory_is_not_kept_where_tensors_would_be_mapped(
    most: int, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters: list[int] = []

    def mallopt(parameter: int, value: int) -> int:
        parameters.append(parameter)
        return int(parameter != -3 or value <= most)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    monkeypatch.setattr(device, "_malloc_is_configured", lambda: False)
    device.keep_freed_memory()
    assert parameters == calls

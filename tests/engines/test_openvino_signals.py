"""Ctrl-C after engines have come and gone: OpenVINO puts its own stack for signals and takes it away again."""

import importlib.util
import subprocess
import sys

import pytest

SCRIPT = """
import signal, sys
from pathlib import Path
import torch
from torch import nn
from radii import engines
from radii.engines import EngineSpec
from radii.smoothing.noise import Gaussian

model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
images = lambda: torch.rand(64, 1, 4, 4)
spec = EngineSpec(model, (1, 4, 4), Gaussian(0.25), 32, Path(sys.argv[1]) / "int8", images)
first = engines.create(sys.argv[2]).prepare(spec)
second = engines.create(sys.argv[3]).prepare(spec)
del first
del second
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("openvino"), reason="the extra radii[openvino] is not installed")
@pytest.mark.parametrize("names", [("openvino", "openvino"), ("openvino_int8", "openvino")], ids="-".join)
def test_a_signal_does_not_crash_after_two_engines(names: tuple[str, str], tmp_path: object) -> None:
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path), *names]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr

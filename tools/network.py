"""Record what a process does on the network and in the home directory."""

import os
import subprocess
import sys
from pathlib import Path

RECORDER = """
import os, socket

def recorder(name):
    def recorded(*arguments, **_):
        with open(os.environ["CALLS"], "a") as file:
            print(name, arguments, file=file)
        raise OSError("no network here")
    return recorded

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, recorder(name))
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, recorder(name))
"""
"""A sitecustomize by which every Python process records its network calls; telemetry is sent by child processes."""

PREPARE = """
from pathlib import Path
import torch
from torch import nn
from radii import engines
from radii.smoothing.noise import Gaussian
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)).eval()
spec = engines.EngineSpec(model, (1, 8, 8), Gaussian(0.25), 16, Path("int8"), lambda: torch.rand(64, 1, 8, 8))
for name in ("openvino", "openvino_int8"):
    engines.create(name).prepare(spec)(torch.rand(16, 1, 8, 8))
"""
OWN_IMPORT = """
import os, time
import openvino, nncf
from openvino_telemetry import Telemetry
while Telemetry().sender.queue_size:
    time.sleep(0.1)
os.rename(os.environ["CALLS"], "before")
"""
WAIT = """
import time
time.sleep(2)
"""


def run(folder: Path, script: str) -> tuple[list[str], list[Path]]:
    """Run a script in a new process; return its network calls and the files it left in an empty home directory."""
    home, work, calls = folder / "home", folder / "work", folder / "calls"
    home.mkdir()
    work.mkdir()
    (folder / "sitecustomize.py").write_text(RECORDER)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CI", "XDG_", "GITHUB"))}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(work), "CALLS": str(calls), "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", script], cwd=work, env=environment, check=True, timeout=300)
    return calls.read_text().splitlines() if calls.is_file() else [], sorted(home.rglob("*"))

"""One pass a request: `radii serve` against LitServe with its batching, in turn, on the same run."""

import asyncio
import base64
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.serve import SUBJECTS, load, request, run_of, server
from benchmarks.timing import machine
from radii.datasets import create

SECONDS, WARM, ROUNDS = 5.0, 2.0, 4
APP = Path(__file__).with_name("litserve_app.py")


def measure(data: Path | None = None) -> dict[str, Any]:
    """Measure requests per second of both servers, in rounds in which they take turns."""
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder) / "packages"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), "litserve"]
        subprocess.run(pip, check=True)
        for subject in SUBJECTS:
            images = create(subject.dataset, data=data).split("test").batch(torch.arange(1_000))
            run = run_of(subject, Path(folder) / subject.dataset / "model", data)
            with server(subject, run, "one-pass") as (ours, _), _litserve(run, packages) as theirs:
                ask = {"radii serve": partial(load, ours), "LitServe": partial(load, theirs, make=_body)}
                for asked in ask.values():
                    asyncio.run(asked(images, WARM))
                rounds = [
                    {name: asyncio.run(asked(images, SECONDS)).rate for name, asked in ask.items()}
                    for _ in range(ROUNDS)
                ]
            rates[subject.name] = {name: statistics.median(rate[name] for rate in rounds) for name in ask}
    return {"machine": machine(), "requests_per_second": rates}


@contextmanager
def _litserve(run: Path, packages: Path) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [sys.executable, str(APP), str(run), str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            _wait_for(port)
            yield port
        finally:
            os.killpg(process.pid, 9)


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("LitServe did not start in a minute")


def _body(image: Tensor) -> bytes:
    pixels = base64.b64encode(image.numpy().tobytes()).decode()
    body = json.dumps({"pixels": pixels, "shape": list(image.shape)}).encode()
    return request("/predict", body, "Content-Type: application/json")

"""Requests per second and the time to an answer of a server on loopback, compared with a loop over requests."""

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import radii
from benchmarks.timing import machine
from radii.certifiers.fixed import Fixed
from radii.certifiers.sequential import Sequential
from radii.datasets import create
from radii.runs import recipe as recipes
from radii.serving.budget import share_of
from radii.serving.model import VOTES
from radii.training.loop import train

ARCHIVE = Path(__file__).parents[1] / "results"
SECONDS = 10.0
"""Seconds of load on each server, and of each loop."""
WARM = 2.0
"""Seconds of load before the clock starts."""
CLIENTS = 16
"""Clients that ask at once, each as soon as it has its answer."""
FAILURE = 0.001
MOST_SAMPLES = 10_000
BY_THE_BOOK = 1_000
"""Samples of a certificate by `fixed`."""


class Subject(NamedTuple):
    """A model, its test images, and the radius and deadline of its requests."""

    name: str
    run: Path | None
    """The archived run; None to train the dataset's Gaussian recipe for an epoch."""
    dataset: str
    radius: float
    deadline: float


SUBJECTS = (
    Subject("LeNet, MNIST", None, "mnist", 0.25, 1.0),
    Subject("ResNet-20, CIFAR-10", ARCHIVE / "cifar10/twelve-epochs/smoothmix", "cifar10", 0.25, 5.0),
)
MODES = ("certificate", "vote", "one-pass")


def measure(data: Path | None = None) -> dict[str, Any]:
    """Measure every model in every mode: the server with evidence, and loops that answer each request alone."""
    subjects = {}
    for subject in SUBJECTS:
        images = create(subject.dataset, data=data).split("test").batch(torch.arange(4_000))
        with tempfile.TemporaryDirectory() as folder:
            run = run_of(subject, Path(folder) / "model", data)
            subjects[subject.name] = {mode: _measured(subject, run, mode, images) for mode in MODES}
    deadlines = {subject.name: subject.deadline for subject in SUBJECTS}
    return {"machine": machine(), "clients": CLIENTS, "seconds": SECONDS, "deadlines": deadlines, "subjects": subjects}


def run_of(subject: Subject, path: Path, data: Path | None) -> Path:
    if subject.run is not None:
        return Path(shutil.copytree(subject.run, path))
    recipe = recipes.read(recipes.find(f"{subject.dataset}/gaussian-0.25"), ["training.epochs=1"])
    return train(recipe, path, data=data).path


def _measured(subject: Subject, run: Path, mode: str, images: Tensor) -> dict[str, Any]:
    loops = {name: _rate(answer, images) for name, answer in _loops(subject, run, mode).items()}
    with server(subject, run, mode) as (port, process):
        asyncio.run(load(port, images, WARM))
        before, work = memory(process.pid), _work(process.pid)
        seen = asyncio.run(load(port, images, SECONDS))
        grown, worked = memory(process.pid) - before, _work(process.pid) - work
    best = max(rate for rate, _ in loops.values())
    return {
        **seen.numbers(subject.deadline),
        "cpu_seconds": worked / len(seen.latencies),
        "loops": {name: {"requests_per_second": rate, "cpu_seconds": cost} for name, (rate, cost) in loops.items()},
        "over_loop": seen.rate / best,
        "megabytes_grown": grown,
    }


# The loops


def _loops(subject: Subject, run: Path, mode: str) -> dict[str, Callable[[Tensor], Any]]:
    """Return ways to answer one request after the other, with the failure of a first answer of the server."""
    smoothed = radii.load(run, engine="torch")
    failure = FAILURE * share_of(1)
    if mode == "one-pass":
        return {"predict_once": lambda image: radii.predict_once(smoothed, image)}
    if mode == "vote":
        return {"prediction": lambda image: radii.predict(smoothed, image, samples=VOTES, failure=failure)}
    sequential = Sequential(radii=(subject.radius,), failure=failure, most_samples=MOST_SAMPLES)
    fixed = Fixed(estimation=BY_THE_BOOK, failure=failure)
    return {
        "sequential": lambda image: radii.certify(smoothed, image, sequential),
        "fixed": lambda image: radii.certify(smoothed, image, fixed),
    }


def _rate(answer: Callable[[Tensor], Any], images: Tensor) -> tuple[float, float]:
    """Return the requests per second of a loop, and the CPU time of each.

    With one thread or with all cores for a pass, whichever is faster.
    """
    return max(_timed(answer, images, threads) for threads in (1, os.cpu_count() or 1))


def _timed(answer: Callable[[Tensor], Any], images: Tensor, threads: int) -> tuple[float, float]:
    torch.set_num_threads(threads)
    for image in images[:3]:
        answer(image)
    began, work, number = time.monotonic(), time.process_time(), 0
    while time.monotonic() - began < SECONDS / 4:
        answer(images[number % len(images)])
        number += 1
    return number / (time.monotonic() - began), (time.process_time() - work) / number


# The server and its clients


@contextmanager
def server(subject: Subject, run: Path, mode: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    evidence = run.with_name(f"evidence-{mode}")
    options = ["--port", "0", "--mode", mode, "--engine", "torch", "--evidence", str(evidence)]
    options += ["--deadline", f"{subject.deadline}s"]
    if mode == "certificate":
        options += ["--radius", str(subject.radius), "--set", f"most_samples={MOST_SAMPLES}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "radii", "serve", str(run), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline().split("http://")[1].split(":")[1]), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def memory(process: int) -> float:
    """Return the resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def _work(process: int) -> float:
    """Return the CPU time of a process in seconds."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """What clients saw."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    abstained: int = 0
    stopped: int = 0
    """Answers that the deadline ended."""
    refused: int = 0

    @property
    def rate(self) -> float:
        """Answers per second that no deadline ended: those that the loops give too."""
        return (len(self.latencies) - self.stopped) / self.seconds

    def numbers(self, deadline: float) -> dict[str, Any]:
        times = np.array(self.latencies)
        return {
            "requests": len(times),
            "requests_per_second": self.rate,
            "p50": float(np.quantile(times, 0.5)),
            "p99": float(np.quantile(times, 0.99)),
            "in_time": float((times <= deadline).mean()),
            "abstained": self.abstained / len(times),
            "stopped": self.stopped / len(times),
            "refused": self.refused,
        }


async def load(
    port: int,
    images: Tensor,
    seconds: float = math.inf,
    most: int = 1 << 60,
    make: "Callable[[Tensor], bytes] | None" = None,
) -> Load:
    """Ask for some seconds, or for so many answers, by all clients at once; `make` writes another server's request."""
    seen, numbers = Load(), iter(range(most))
    began = time.monotonic()
    await asyncio.gather(*(_client(port, images, numbers, began + seconds, seen, make) for _ in range(CLIENTS)))
    seen.seconds = time.monotonic() - began
    return seen


async def _client(
    port: int,
    images: Tensor,
    numbers: Iterator[int],
    until: float,
    seen: Load,
    make: "Callable[[Tensor], bytes] | None",
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while time.monotonic() < until and (number := next(numbers, None)) is not None:
            content = (make or _infer)(images[number % len(images)])
            began = time.monotonic()
            writer.write(content)
            status, body = await _response(reader)
            if status == 503:
                seen.refused += 1
                await asyncio.sleep(0.05)
                continue
            assert status == 200, body
            seen.latencies.append(time.monotonic() - began)
            if make is not None:
                continue
            answer = json.loads(json.loads(body)["outputs"][0]["data"][0])
            seen.abstained += answer["abstained"]
            seen.stopped += answer["stopped_at_deadline"]
    finally:
        writer.close()


def _infer(image: Tensor) -> bytes:
    size = 4 * math.prod(image.shape)
    stated = {"name": "image", "datatype": "FP32", "shape": [1, *image.shape]}
    inputs = [{**stated, "parameters": {"binary_data_size": size}}]
    head = json.dumps({"inputs": inputs, "outputs": [{"name": "answer"}]}).encode()
    path, length = "/v2/models/model/infer", f"Inference-Header-Content-Length: {len(head)}"
    return request(path, head + image.numpy().tobytes(), length)


def request(path: str, body: bytes, *headers: str) -> bytes:
    """Return the bytes of a POST request."""
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", *headers, f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.split("content-length: ")[1].split("\r\n")[0])
    return int(head.split(" ")[1]), await reader.readexactly(length)

"""The memory of a server over many requests: flat, or it would have to be restarted."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.serve import Subject, load, memory, server
from benchmarks.timing import machine
from radii.datasets import create
from radii.runs import recipe as recipes
from radii.training.loop import train

REQUESTS = 100_000
STEPS = 10
SUBJECT = Subject("digits_cnn", None, "digits", 0.25, 5.0)


def measure(data: Path | None = None) -> dict[str, Any]:
    """Measure the resident memory of a server with evidence after each tenth of the requests, one pass each."""
    images = create("digits", data=data).split("test").batch(torch.arange(300))
    with tempfile.TemporaryDirectory() as folder:
        recipe = recipes.read(recipes.find("digits/gaussian-0.25"), ["training.epochs=1"])
        run = train(recipe, Path(folder) / "model", data=data).path
        with server(SUBJECT, run, "one-pass") as (port, process):
            after = [(0, memory(process.pid))]
            while after[-1][0] < REQUESTS:
                answers = asyncio.run(load(port, images, most=REQUESTS // STEPS))
                after.append((after[-1][0] + len(answers.latencies), memory(process.pid)))
    return {"machine": machine(), "megabytes": after}

"""Certification on a GPU: whether its noise is the CPU's, what it is waited for, and how fast it is.

Run it where torch finds a GPU; RADII_DEVICE=cpu rehearses it on a CPU.
"""

import math
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import machine, take_turns
from radii import models
from radii.device import VARIABLE, default_device
from radii.engines import SmoothedClassifier, default_batch_size
from radii.errors import ParameterError
from radii.provenance import rounding_environment
from radii.smoothing import noise as noises
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Gaussian
from radii.smoothing.questions import Task, Votes
from radii.smoothing.streams import Joined, Part, Stream

SAMPLES = 20_480
ENGINES = ("torch", "torch_bf16", "torch_fp16")
SUBJECTS: dict[str, tuple[int, int, int]] = {"cifar_resnet20": (3, 32, 32), "cifar_resnet110": (3, 32, 32)}
SIGMA = 0.25
IMAGES = 64
"""Images that share passes, as those of `sequential` do: their noise is drawn together."""


def measure(
    _data: Path | None = None, samples: int = SAMPLES, rounds: int = 5, size: int | None = None
) -> dict[str, Any]:
    """Measure every number of the section, on the default device; `size` copies share a pass, by default as usual."""
    device = default_device()
    if device.type == "cpu" and os.environ.get(VARIABLE) != "cpu":
        raise ParameterError(
            f"torch finds no GPU here: run it on a machine with one, or rehearse it with {VARIABLE}=cpu"
        )
    environment = rounding_environment(
        "torch", device, size or default_batch_size(device, math.prod(next(iter(SUBJECTS.values()))))
    )
    return {
        "machine": {**machine(), "device": environment["device"]},
        "environment": environment,
        "noise": _noise(device),
        "subjects": {name: _rates(name, shape, device, samples, rounds, size) for name, shape in SUBJECTS.items()},
    }


def _noise(device: torch.device) -> dict[str, Any]:
    """Compare the noise of the device with the CPU's."""
    stream, width = Stream.at("measure", 0), 3 * 32 * 32
    words = [_words(stream, width, torch.device(place)) for place in ("cpu", device)]
    numbers = [stream.normal(0, 256, width, device=place).cpu() for place in ("cpu", device)]
    grid = [_grid(stream, torch.device(place)) for place in ("cpu", device)]
    return {
        "words_equal": bool(torch.equal(*words)),
        "grid_equal": bool(torch.equal(*grid)),
        "largest_difference": float((numbers[0] - numbers[1]).abs().max()),
        "share_that_differs": float((numbers[0] != numbers[1]).float().mean()),
    }


def _words(stream: Stream, width: int, device: torch.device) -> Tensor:
    """Return words of a stream, and of two that are joined as in a pass of several images."""
    parts = Part(stream, 7, 100), Part(Stream.at("measure", 1), 0, 156)
    joined = Joined.of(parts, device)
    return torch.cat([rows.words(0, 256, width, device=device) for rows in (stream, joined)]).cpu()


def _grid(stream: Stream, device: torch.device) -> Tensor:
    blank = torch.zeros(3, 32, 32, device=device)
    noise = noises.create("grid", sigma=SIGMA)
    return noise.draw(blank, torch.empty(256, 3, 32, 32, device=device), stream, 0).cpu()


def _rates(
    name: str, shape: tuple[int, int, int], device: torch.device, samples: int, rounds: int, size: int | None
) -> dict[str, dict[str, Any]]:
    """Return samples per second of a plain loop and of every engine, and what a question waited for."""
    torch.manual_seed(0)
    model = models.create(name).eval().to(device)
    image = torch.rand(shape)
    size = size or default_batch_size(device, image.numel())
    turns: dict[str, Any] = {"plain loop": lambda: _plain(model, image.to(device), samples)}
    waits: dict[str, int | None] = {"plain loop": None}
    for engine in ENGINES:
        classifier = SmoothedClassifier(model, noise=Gaussian(SIGMA), classes=10, batch_size=size, engine=engine)
        classifier.votes(image, 1, NoiseAddress(0))  # prepares and probes
        turns[engine] = lambda classifier=classifier: classifier.votes(image, samples, NoiseAddress(0))
        waits[engine] = _waits(turns[engine], device)
        if engine == ENGINES[0]:
            tasks = [
                Task(image.roll(number, 2), NoiseAddress(0, number), Votes(0, 0, samples // IMAGES))
                for number in range(IMAGES)
            ]
            name = f"{engine}, {IMAGES} images"
            turns[name] = lambda classifier=classifier, tasks=tasks: classifier.count(tasks)
            waits[name] = _waits(turns[name], device)
    seconds = take_turns(turns, rounds, warmups=1)
    return {key: {"samples_per_second": samples / seconds[key], "waits": waits[key]} for key in turns}


def _plain(model: nn.Module, image: Tensor, samples: int) -> Tensor:
    """Count votes as a plain loop does, on the device of the image; the last line waits for it."""
    counts = torch.zeros(10, dtype=torch.long, device=image.device)
    with torch.no_grad():
        for start in range(0, samples, 1000):
            copies = image.expand(min(1000, samples - start), *image.shape)
            winners = model(copies + SIGMA * torch.randn_like(copies)).argmax(1)
            counts += torch.bincount(winners, minlength=10)
    return counts.cpu()


def _waits(question: Any, device: torch.device) -> int | None:
    """Count the synchronisations of a question that torch's debug mode finds; None unless it is CUDA."""
    if device.type != "cuda":
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            question()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(entry.message) for entry in caught)

"""The cost of the CIFAR-10 students of docs/results.md: transfer against SmoothMix on the student's architecture."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.timing import machine, take_turns
from benchmarks.training import CIFAR, random_images, step_of
from radii import models
from radii.datasets import Images
from radii.device import keep_freed_memory
from radii.smoothing.forward import channels_last

FIELDS: dict[str, dict[str, Any]] = {
    "cifar_resnet20": {},
    "regnetx_200mf": {"width": 0.25},
    "resnext29_2x64d": {"width": 8},
    "vit": {"width": 96, "layers": 4, "heads": 4},
}
TEACHERS = {
    "regnetx_200mf": "cifar_resnet20",
    "vit": "cifar_resnet20",
    "resnext29_2x64d": "regnetx_200mf",
    "cifar_resnet20": "resnext29_2x64d",
}
"""The students, each with its teacher: a chain of three, and a transformer."""
CHAIN = ("cifar_resnet20", "regnetx_200mf", "resnext29_2x64d", "cifar_resnet20")
"""From the teacher to the last student."""
EPOCHS = {"smoothmix": 12, "transfer": 20}
METHODS = ("gaussian", "transfer", "smoothmix")


def measure(_: Path | None = None, rounds: int = 5) -> dict[str, Any]:
    """Measure seconds per epoch of each method on each student: one thread, bfloat16, 128 images per step."""
    torch.set_num_threads(1)
    keep_freed_memory()
    images = random_images()
    seconds = {name: _seconds(name, images, rounds) for name in TEACHERS}
    return {"machine": machine(), "students": seconds, "chain": CHAIN, "epochs": EPOCHS}


def _seconds(student: str, images: Images, rounds: int) -> dict[str, float]:
    model, teacher = _model(student), _model(TEACHERS[student]).eval()
    steps = {
        name: step_of(name, CIFAR[name][0], 0.25, model, images, 128, teacher, precision="bfloat16") for name in METHODS
    }
    return {name: seconds * 50_000 / 128 for name, seconds in take_turns(steps, rounds, warmups=1).items()}


def _model(name: str) -> nn.Module:
    return channels_last(models.create(name, shape=(3, 32, 32), classes=10, **FIELDS[name]))

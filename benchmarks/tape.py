"""The price of transfer: a student's step with the teacher's pass, and with a tape, over one of Gaussian training."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.timing import machine, take_turns
from benchmarks.training import random_images, step_of
from radii import models
from radii.datasets import Images
from radii.device import keep_freed_memory
from radii.smoothing.forward import channels_last
from radii.training.tape import Tape

STUDENTS: dict[str, dict[str, Any]] = {
    "fast_resnet": {"width": 16},
    "fast_vit": {},
    "cifar_resnet20": {},
    "regnetx_200mf": {"width": 0.25},
}
TEACHER = "fast_resnet"
CLASSES, PER_STEP, EPOCH = 10, 128, 100
"""`step_of` makes steps of this epoch."""


def measure(_: Path | None = None, rounds: int = 5) -> dict[str, Any]:
    """Measure the processor's seconds of a step of each student: one thread, bfloat16, 128 images, in turns."""
    torch.set_num_threads(1)
    keep_freed_memory()
    images = random_images()
    with tempfile.TemporaryDirectory() as folder:
        tape = recorded_tape(Path(folder), images)
        seconds = {name: _seconds(name, images, tape, rounds) for name in STUDENTS}
    return {"machine": machine(), "teacher": TEACHER, "students": seconds}


def recorded_tape(folder: Path, images: Images) -> Tape:
    """Record a tape of one epoch, and open it as a later student does."""
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(len(images), CLASSES, generator=rng).bfloat16().float()
    Tape(folder, len(images), CLASSES, writable=True).record(EPOCH, torch.arange(len(images)), logits)
    return Tape(folder, len(images), CLASSES, writable=False)


def _seconds(student: str, images: Images, tape: Tape, rounds: int) -> dict[str, float]:
    model, teacher = _model(student), _model(TEACHER).eval()
    common: dict[str, Any] = {
        "model": model,
        "images": images,
        "batch": PER_STEP,
        "teacher": teacher,
        "precision": "bfloat16",
    }
    steps = {
        "gaussian": step_of("gaussian", {}, 0.25, **common),
        "with the teacher": step_of("transfer", {}, 0.25, **common),
        "with a tape": step_of("transfer", {"tape": tape}, 0.25, **common),
    }
    return take_turns(steps, rounds, clock=time.process_time)


def _model(name: str) -> nn.Module:
    return channels_last(models.create(name, shape=(3, 32, 32), classes=CLASSES, **STUDENTS[name]))

"""Robustness transfer as a product: one student, a chain of them, or a small teacher trained first (CRT)."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from radii.engine import build
from radii.engine.train import Tick, gradient_step, train
from radii.experiment import files
from radii.experiment.recipe import Recipe
from radii.experiment.run import Run
from radii.objectives import Batch, Step
from radii.smoothing.noise import generator

PRICED_STEPS = 5

Watch = Callable[[Tick], None]


def chain(
    teacher: Run,
    recipe: Recipe,
    models: Sequence[str],
    *,
    run: Path | None = None,
    data: Path | None = None,
    watch: Watch = lambda _: None,
) -> Iterator[Run]:
    """Train a student of each model in turn, every one taught by the one before; yields each as it is done.

    `recipe` is the students' but for the model; a dataset or sigma other than the teacher's is refused.
    """
    if run is not None and len(models) > 1:
        raise ValueError("--run names one student's directory, but there are several --model: leave it out")
    for model in models:
        path = run or teacher.path.with_name(f"{teacher.name}-to-{model.replace(':', '-')}")
        student = train(replace(recipe, model=model), path, data=data, teacher=teacher, watch=watch)
        _price(student, teacher, data)
        yield student
        teacher = student


def _price(student: Run, teacher: Run, data: Path | None) -> None:
    """Record what an epoch of the method that trained the first teacher costs on this student's architecture.

    A few steps are timed and extrapolated: training the student that way is just what transfer saves.
    """
    first = teacher
    while (before := first.source("teacher")) is not None:
        first = Run(before)
    price_file = student.path / "transfer.json"
    if price_file.is_file() or first.recipe.training is None:
        return
    recipe = replace(first.recipe, model=student.recipe.model)
    parts = build.build(recipe, data, soft_labels=first.source("soft_labels"))
    images = parts.dataset.split("train")
    per_step = parts.training.images_per_step
    device = build.device()
    model = parts.model.to(device).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    seconds = []
    for number in range(PRICED_STEPS + 1):
        indices = torch.arange(number * per_step, (number + 1) * per_step) % len(images)
        pixels = images.batch(indices).to(device)
        batch = Batch(pixels, images.labels[indices].to(device), indices.to(device))
        began = time.perf_counter()
        gradient_step(parts.objective, model, optimiser, batch, Step(parts.training.epochs, generator(device, number)))
        seconds.append(time.perf_counter() - began)
    epoch = sum(seconds[1:]) / PRICED_STEPS * len(images) / per_step
    files.write_json(
        price_file,
        {
            "method": first.recipe.objective["name"],
            "method_seconds_per_epoch": epoch,
            "steps_timed": PRICED_STEPS,
        },
    )

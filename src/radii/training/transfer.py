"""Robustness transfer (CRT): one student, or a chain of students."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from radii import disk
from radii import models as architectures
from radii.device import default_device
from radii.errors import ParameterError
from radii.objectives import Batch, Step
from radii.runs.lineage import seconds_before, teachers
from radii.runs.recipe import Recipe, Spec, named_table
from radii.runs.run import Run
from radii.smoothing.addresses import generator
from radii.training.components import Components, assemble, open_dataset
from radii.training.distributed import joined
from radii.training.step import Loss, Part, gradient_step
from radii.training.train import OnStep, train

TIMED_STEPS = 5


def transfer(
    teacher: Run,
    recipe: Recipe,
    models: Sequence[Spec],
    *,
    run: Path | None = None,
    data: Path | None = None,
    on_step: OnStep = lambda _: None,
) -> Iterator[Run]:
    """Train a student of each model in turn, each taught by the one before; yields each when it is trained.

    All students use `recipe`, except for its model; a dataset or sigma other than the teacher's is refused.
    """
    if run is not None and len(models) > 1:
        raise ParameterError("one directory is named for several students: leave it out", "run")
    for model in models:
        path = run or student_path(teacher, model)
        wanted = replace(recipe, model=model, dataset=_dataset(recipe, teacher))
        student = train(wanted, path, data=data, teacher=teacher, on_step=on_step)
        if joined().first:
            time_teacher_method(student, teacher, data)
        yield student
        teacher = student


def student_path(teacher: Run, model: Spec) -> Path:
    """Where a student is trained by default: beside its teacher, as TEACHER-to-MODEL."""
    name = named_table(model, "model")["name"].replace(":", "-")
    return teacher.path.with_name(f"{teacher.name}-to-{name}")


def _dataset(recipe: Recipe, teacher: Run) -> Spec:
    """The recipe's dataset; where it is the teacher's, with the teacher's fields for those that it does not state."""
    theirs = teacher.recipe.dataset
    if recipe.dataset["name"] != theirs["name"]:
        return recipe.dataset
    path = {"path": str(teacher.path / theirs["path"])} if theirs.get("path") else {}
    return {**theirs, **path, **recipe.dataset}


def time_teacher_method(student: Run, teacher: Run, data: Path | None) -> None:
    """Record the time of an epoch of the first teacher's training method on this student's architecture.

    A few steps are timed and extrapolated: transfer exists to avoid the whole training.
    """
    *_, first = teacher, *teachers(teacher)
    cost_file = student.path / "transfer.json"
    if cost_file.is_file() or first.recipe.training is None:
        return
    recipe = replace(first.recipe, model=_around(first, student), dataset=student.recipe.dataset)
    place = open_dataset(student.recipe, data, student.path).data
    labels = first.source("soft_labels")
    components = assemble(_from_scratch(recipe), place, soft_labels=labels, trust=teacher.trusted)
    cost = {
        "method": first.recipe.objective["name"],
        "method_seconds_per_epoch": _seconds_per_epoch(components),
        "steps_timed": TIMED_STEPS,
        "seconds_before": seconds_before(student),
    }
    disk.write_json(cost_file, cost)


def _around(first: Run, student: Run) -> Spec:
    """The student's model as the first teacher's method trains it: a denoiser is put in front of it."""
    parts = architectures.parts(first.recipe.model["name"])
    return {**first.recipe.model, **dict.fromkeys(parts, str(student.path))} if parts else student.recipe.model


def _from_scratch(recipe: Recipe) -> Recipe:
    """The recipe without initial weights: they are of another architecture."""
    training = recipe.training
    return replace(recipe, training=replace(training, initial=None) if training else None)


def _seconds_per_epoch(components: Components) -> float:
    """The time of an epoch, extrapolated from a few steps after one warm-up step."""
    images, device = components.dataset.part("train"), default_device()
    per_step = components.training.images_per_step
    model = components.model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = Loss(components.objective, model, components.training.precision)
    seconds = []
    for number in range(TIMED_STEPS + 1):
        indices = torch.arange(number * per_step, (number + 1) * per_step) % len(images)
        pixels = images.batch(indices).to(device)
        batch = Batch(pixels, images.labels[indices].to(device), indices.to(device))
        step = Step(components.training.epochs, generator(device, "time", number))
        began = time.perf_counter()
        gradient_step(loss, optimizer, Part(batch), step)
        seconds.append(time.perf_counter() - began)
    return sum(seconds[1:]) / TIMED_STEPS * len(images) / per_step

"""Build the components of a recipe (data, model, objective, teacher) and check them before training starts."""

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from radii import datasets, engines, models, objectives
from radii.datasets import Dataset, Images
from radii.errors import warn_of_sigma
from radii.fields import settings_of
from radii.objectives import Objective
from radii.runs import readers
from radii.runs.profiles import TRANSFER
from radii.runs.recipe import Recipe, RecipeError, Training, fields_of
from radii.runs.run import Run, RunError
from radii.smoothing.addresses import generator
from radii.training.initial_weights import (
    inherit_normalisation,
    load_initial,
    load_inner_model,
    resolve_inner_models,
    source,
)
from radii.training.open_dataset import dataset_fields, list_classes, open_dataset
from radii.training.tape import Tape, open_tape
from radii.training.weights import ModelSpec, make_model, model_spec, spec_for, trained_model

PROBE_IMAGES = 128
"""Noisy training images on which a teacher is compared with its folded version."""


@dataclass(frozen=True)
class Components:
    """The objects that a recipe describes."""

    recipe: Recipe
    """Resolved: every field of the components is stated."""
    training: Training
    dataset: Dataset
    images: Images
    """The training split."""
    model: nn.Module
    spec: ModelSpec
    objective: Objective
    origin: Mapping[str, Any]
    """The paths and hashes of teacher, soft labels and initial weights."""

    def with_steps(self, steps: int) -> "Components":
        """Return the same components for a training of `steps` steps."""
        training = replace(self.training, epochs=0, steps=steps).resolved(len(self.images))
        return replace(self, training=training, recipe=replace(self.recipe, training=training))

    @property
    def steps_per_epoch(self) -> int:
        """The steps of a whole epoch."""
        return math.ceil(len(self.images) / self.training.images_per_step)

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the objective's fields under their names in a recipe."""
        return {f"objective.{setting.name}": setting.default for setting in settings_of(type(self.objective))}


def build(
    recipe: Recipe,
    data: Path | None = None,
    teacher: Run | Path | str | None = None,
    soft_labels: Path | str | None = None,
    trust: Collection[str] = (),
    *,
    tape: bool = False,
) -> Components:
    """Build the components of a recipe, or raise an error before training starts.

    `trust` names the modules whose code may be imported by the runs that the recipe starts from. With `tape`, the
    teacher's logits are recorded beside its weights, or read where they are recorded already.
    """
    training = recipe.training
    if training is None:
        raise RecipeError("this recipe has no [training]: it belongs to a model that was trained elsewhere")
    warn_of_sigma(recipe.sigma)
    dataset = open_dataset(recipe, data)
    read_images = cache(lambda: dataset.part("train"))  # once, and only after the checks that need no images
    recipe, spec, inner_runs = resolve_inner_models(recipe, spec_for(recipe, dataset), trust)
    initial_run = None if training.initial is None else Run(training.initial, trust)
    teacher_run = teacher if isinstance(teacher, Run) or teacher is None else Run(teacher)
    for parent in (teacher_run, initial_run):
        spec = inherit_normalisation(recipe, spec, parent)
    resources: dict[str, Any] = {}
    origin: dict[str, Any] = {}
    if teacher_run is not None:
        resources["teacher"] = _load_teacher(recipe, spec, teacher_run, read_images)
        origin["teacher"] = source(teacher_run.path, teacher_run.weights())
        if tape and recipe.objective["name"] == TRANSFER:
            resources["tape"] = _open_tape(recipe, training, dataset, teacher_run, read_images())
    if soft_labels is not None:
        path = Path(soft_labels)
        resources["soft_labels"] = _load_soft_labels(path, read_images, spec.classes)
        origin["soft_labels"] = source(path, path)
    objective = _make_objective(recipe, resources)
    model, weights_origin = _make_initial_model(recipe, spec, objective, inner_runs, initial_run)
    images = read_images()
    training = training.resolved(len(images))
    resolved = _resolve(replace(recipe, training=training), dataset, objective)
    return Components(resolved, training, dataset, images, model, spec, objective, origin | weights_origin)


def _make_initial_model(
    recipe: Recipe, spec: ModelSpec, objective: Objective, inner_runs: Mapping[str, Run], initial_run: Run | None
) -> tuple[nn.Module, dict[str, Any]]:
    """Make the model with the weights that training starts from; return it with the origin of these weights."""
    model = make_model(recipe, spec)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(f"the model {recipe.model['name']!r} has no weights to train: use it as a teacher instead")
    objective.check_model(model)
    origin = {key: load_inner_model(model, key, run) for key, run in inner_runs.items()}
    if initial_run is not None:
        origin["initial"] = load_initial(model, spec, initial_run)
    return model, origin


def _resolve(recipe: Recipe, dataset: Dataset, objective: Objective) -> Recipe:
    """Return the recipe with every field of its components stated."""
    fields = {s.name: getattr(objective, s.name) for s in settings_of(type(objective)) if s.name != "sigma"}
    return replace(
        _resolve_dataset(recipe, dataset),
        model={"name": recipe.model["name"], **models.resolved(recipe.model["name"], fields_of(recipe.model))},
        objective={"name": recipe.objective["name"], **fields},
    )


def _resolve_dataset(recipe: Recipe, dataset: Dataset) -> Recipe:
    return replace(recipe, dataset={"name": recipe.dataset["name"], **dataset_fields(dataset)})


def stored(recipe: Recipe, run: Run) -> Recipe:
    """Return the recipe as a run stores it: with paths relative to the run, so that run and data can move together."""

    def relative(path: str) -> str:
        return os.path.relpath(Path(path).resolve(), run.path.resolve())

    dataset, training = dict(recipe.dataset), recipe.training
    if dataset.get("path"):
        dataset["path"] = relative(dataset["path"])
    if training is not None and training.initial is not None:
        training = replace(training, initial=relative(training.initial))
    return replace(recipe, dataset=dataset, training=training)


# The objective and what it learns from


def _make_objective(recipe: Recipe, resources: Mapping[str, Any]) -> Objective:
    name = recipe.objective["name"]
    if extra := sorted(set(resources) - set(objectives.resources_of(name))):
        raise ValueError(f"objective {name!r} takes no {extra[0]}: leave it out, or use another recipe")
    return objectives.create(name, sigma=recipe.sigma, **fields_of(recipe.objective), **resources)


def _load_teacher(recipe: Recipe, spec: ModelSpec, run: Run, read_images: Callable[[], Images]) -> nn.Module:
    """Load the teacher's model with its BatchNorm folded in; raise a RunError if it does not fit the student."""
    teacher_recipe, teacher_spec = run.recipe, model_spec(run)
    pairs = {
        "dataset": (teacher_recipe.dataset["name"], recipe.dataset["name"]),
        "sigma": (teacher_recipe.sigma, recipe.sigma),
        "number of classes": (teacher_spec.classes, spec.classes),
        "image size": (teacher_spec.shape, spec.shape),
    }
    for what, (value, expected) in pairs.items():
        if value != expected:
            raise RunError(f"the teacher {run.path} has another {what}: {value}, the student has {expected}")
    if (names := run.class_names()) and names != spec.class_names:
        teachers, students = list_classes(names), list_classes(spec.class_names)
        raise RunError(
            f"the teacher {run.path} has other classes: {teachers}, the student has {students}, in this order"
        )
    model = trained_model(run)
    probe = datasets.spread_images(read_images(), PROBE_IMAGES)
    noisy = probe + recipe.sigma * torch.randn(probe.shape, generator=generator("cpu", "probe", 3))
    return engines.folded(model, noisy.to(engines.device_of(model)))


def _open_tape(recipe: Recipe, training: Training, dataset: Dataset, teacher: Run, images: Images) -> Tape | None:
    """Open the teacher's tape for the resolved recipe of a student."""
    sized = _resolve_dataset(replace(recipe, training=training.resolved(len(images))), dataset)
    return open_tape(teacher, teacher.recipe.model_digest, sized, images, dataset.classes)


def _load_soft_labels(path: Path, read_images: Callable[[], Images], classes: int) -> Tensor:
    """Read soft labels; raise a ValueError if they were not made for the training split."""
    try:
        table = datasets.read_npy(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read soft labels from {path}: {error}; `radii soft-labels RUN` makes them") from error
    images = read_images()
    expected = (len(images), classes)
    if table.shape != expected:
        raise ValueError(f"{path} holds soft labels of shape {table.shape}, the training split needs {expected}")
    if table.dtype != np.float32 or not bool((table >= 0).all() and (table <= 1).all()):
        raise ValueError(f"{path} holds {table.dtype}, expected shares as `radii soft-labels` writes them")
    header = path.with_suffix(".json")
    digest = readers.json_object(header).get("data") if header.is_file() else None
    if digest not in (None, images.digest):
        raise ValueError(f"{path} holds soft labels of other images than the training split's: make them again")
    return torch.from_numpy(table)

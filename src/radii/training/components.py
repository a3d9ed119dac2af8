"""The components of a recipe, made and checked before training starts."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from radii import datasets, engines, models, objectives
from radii.datasets import Dataset, Images
from radii.device import default_device
from radii.fields import settings_of
from radii.objectives import Objective
from radii.runs import readers
from radii.runs.recipe import Recipe, RecipeError, Training, fields_of
from radii.runs.run import Run, RunError
from radii.smoothing.addresses import generator
from radii.training.parts import expect_same_images, fill_part, source_of, with_parts
from radii.training.weights import ModelSpec, load_weights, make_model, model_spec, spec_for, trained_model

PROBE_IMAGES = 128
"""Noisy training images on which a teacher is compared with its folded self."""


@dataclass(frozen=True)
class Components:
    """The objects that a recipe describes."""

    recipe: Recipe
    """Resolved: every field of the components stated."""
    training: Training
    dataset: Dataset
    model: nn.Module
    spec: ModelSpec
    objective: Objective
    origin: Mapping[str, Any]
    """The paths and hashes of the resources, for the record."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the objective's fields, under their names in a recipe."""
        return {f"objective.{each.name}": each.default for each in settings_of(type(self.objective))}


def assemble(
    recipe: Recipe,
    data: Path | None = None,
    teacher: Run | Path | str | None = None,
    soft_labels: Path | str | None = None,
    trust: Collection[str] = (),
) -> Components:
    """Make the components of a recipe, or raise before training starts.

    `trust` names the modules of others whose code the runs may use that the recipe starts from.
    """
    training = recipe.training
    if training is None:
        raise RecipeError("this recipe has no [training]: it belongs to a model that was trained elsewhere")
    dataset = open_dataset(recipe, data)
    recipe, spec, parts = with_parts(recipe, spec_for(recipe, dataset), trust)
    resources: dict[str, Any] = {}
    origin: dict[str, Any] = {}
    if teacher is not None:
        resources["teacher"], origin["teacher"] = _teacher(recipe, spec, teacher, dataset)
    if soft_labels is not None:
        resources["soft_labels"], origin["soft_labels"] = _soft_labels(dataset, Path(soft_labels))
    objective = _objective(recipe, resources)
    model = make_model(recipe, spec)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(f"the model {recipe.model['name']!r} has no weights to train: use it as a teacher instead")
    objective.check_model(model)
    for key, run in parts.items():
        origin[key] = fill_part(model, key, run)
    if training.initial is not None:
        origin["initial"] = _start_from(model, spec, Run(training.initial, trust))
    resolved = _resolved(recipe, dataset, objective)
    return Components(resolved, training, dataset, model, spec, objective, origin)


def open_dataset(recipe: Recipe, data: Path | None, base: Path | None = None) -> Dataset:
    """The dataset of a recipe; `data` overrides its location, and a path in the recipe is relative to `base`."""
    fields = fields_of(recipe.dataset)
    if data is not None:
        fields["path"] = str(data)
    elif base is not None and fields.get("path"):
        fields["path"] = os.path.normpath(base / fields["path"])
        if not Path(fields["path"]).exists() and os.environ.get("RADII_DATA"):
            del fields["path"]  # it has moved, to RADII_DATA
    return datasets.create(recipe.dataset["name"], **fields)


def dataset_of(run: Run, data: Path | None) -> Dataset:
    """The dataset that a run was trained on, found at the path in the run or at `data`."""
    return open_dataset(run.recipe, data, run.path)


def stored(recipe: Recipe, run: Run) -> Recipe:
    """The recipe as a run keeps it: paths are relative to the run, so that both may move together."""
    dataset, training = dict(recipe.dataset), recipe.training
    if dataset.get("path"):
        dataset["path"] = _relative(dataset["path"], run)
    if training is not None and training.initial is not None:
        training = replace(training, initial=_relative(training.initial, run))
    return replace(recipe, dataset=dataset, training=training)


def _relative(path: str, run: Run) -> str:
    return os.path.relpath(Path(path).resolve(), run.path.resolve())


def _objective(recipe: Recipe, resources: Mapping[str, Any]) -> Objective:
    name = recipe.objective["name"]
    if extra := sorted(set(resources) - set(objectives.resources_of(name))):
        raise ValueError(f"objective {name!r} takes no {extra[0]}: leave it out, or use another recipe")
    return objectives.create(name, sigma=recipe.sigma, **fields_of(recipe.objective), **resources)


def _teacher(
    recipe: Recipe, spec: ModelSpec, named: Run | Path | str, dataset: Dataset
) -> tuple[nn.Module, dict[str, str]]:
    run = named if isinstance(named, Run) else Run(named)
    theirs, taught = run.recipe, model_spec(run)
    pairs = {
        "dataset": (theirs.dataset["name"], recipe.dataset["name"]),
        "sigma": (theirs.sigma, recipe.sigma),
        "number of classes": (taught.classes, spec.classes),
        "image size": (taught.shape, spec.shape),
    }
    for what, (got, wanted) in pairs.items():
        if got != wanted:
            raise RunError(f"the teacher {run.path} has another {what}: {got}, the student has {wanted}")
    model = trained_model(run)
    probe = spread_images(dataset.part("train"), PROBE_IMAGES)
    noisy = probe + recipe.sigma * torch.randn(probe.shape, generator=generator("cpu", "probe", 3))
    return engines.folded(model, noisy.to(default_device())), source_of(run.path, run.weights())


def spread_images(images: Images, count: int) -> Tensor:
    """As many images of a split, or all, from its beginning to its end: it may be sorted by class."""
    count = min(count, len(images))
    return images.batch(torch.arange(count) * len(images) // count)


def _soft_labels(dataset: Dataset, path: Path) -> tuple[Tensor, dict[str, str]]:
    try:
        table = datasets.read_npy(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read soft labels from {path}: {error}; `radii soft-labels RUN` makes them") from error
    wanted = (len(dataset.part("train")), dataset.classes)
    if table.shape != wanted:
        raise ValueError(f"{path} holds soft labels of shape {table.shape}, the training split needs {wanted}")
    if table.dtype != np.float32 or not bool((table >= 0).all() and (table <= 1).all()):
        raise ValueError(f"{path} holds {table.dtype}, expected shares as `radii soft-labels` writes them")
    _expect_data_of_soft_labels(dataset, path)
    return torch.from_numpy(table), source_of(path, path)


def _expect_data_of_soft_labels(dataset: Dataset, path: Path) -> None:
    """Refuse soft labels of other images, where their header is beside them."""
    header = path.with_suffix(".json")
    made_of = readers.json_object(header).get("data") if header.is_file() else None
    if made_of not in (None, dataset.part("train").digest):
        raise ValueError(f"{path} holds soft labels of other images than the training split's: make them again")


def _start_from(model: nn.Module, spec: ModelSpec, run: Run) -> dict[str, str]:
    """Load the weights that fine-tuning starts from: a run's, or a file's."""
    weights = run.path
    if weights.is_dir():
        weights = run.weights()
        expect_same_images(run, spec)
        if (theirs := model_spec(run).normalisation) != spec.normalisation:
            got = f"{run.path} normalises its pixels by {tuple(theirs)}"
            raise RunError(f"{got}, this recipe by {tuple(spec.normalisation)}: state mean and std of the dataset")
    load_weights(model, weights, "this recipe's model")
    return source_of(run.path, weights)


def _resolved(recipe: Recipe, dataset: Dataset, objective: Objective) -> Recipe:
    """The recipe with every field of its components stated."""
    method = {s.name: getattr(objective, s.name) for s in settings_of(type(objective)) if s.name != "sigma"}
    model = models.resolved(recipe.model["name"], fields_of(recipe.model))
    return replace(
        recipe,
        dataset={"name": recipe.dataset["name"], **dataset_fields(dataset)},
        model={"name": recipe.model["name"], **model},
        objective={"name": recipe.objective["name"], **method},
    )


def dataset_fields(dataset: Dataset) -> dict[str, Any]:
    """The fields of a dataset that have a value, its location among them."""
    found = {s.name: getattr(dataset, s.name) for s in settings_of(type(dataset))}
    if dataset.data is not None:
        found["path"] = str(dataset.data)
    return {name: value for name, value in found.items() if value is not None}

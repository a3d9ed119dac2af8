"""Build the components of a recipe (data, model, objective, teacher) and check them before training starts."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from radii import datasets, disk, engines, models, objectives
from radii.datasets import Dataset, Images
from radii.device import default_device
from radii.errors import ParameterError
from radii.fields import settings_of
from radii.objectives import Objective
from radii.runs import readers, trust
from radii.runs.profiles import TRANSFER
from radii.runs.recipe import Recipe, RecipeError, Training, fields_of, warn_of_sigma
from radii.runs.run import Run, RunError
from radii.smoothing.addresses import generator
from radii.training.tape import open_tape
from radii.training.weights import (
    ModelSpec,
    load_weights,
    make_model,
    model_digest,
    model_spec,
    spec_for,
    trained_model,
)

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
        """Return the same for a training of so many steps."""
        training = replace(self.training, epochs=0, steps=steps).resolved(len(self.images))
        return replace(self, training=training, recipe=replace(self.recipe, training=training))

    @property
    def defaults(self) -> dict[str, Any]:
        """Return the defaults of the objective's fields under their names in a recipe."""
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
    recipe, spec, part_runs = _resolve_model_parts(recipe, spec_for(recipe, dataset), trust)
    resources: dict[str, Any] = {}
    origin: dict[str, Any] = {}
    initial_run = None if training.initial is None else Run(training.initial, trust)
    teacher_run = teacher if isinstance(teacher, Run) or teacher is None else Run(teacher)
    for parent in (teacher_run, initial_run):
        spec = _inherit_normalisation(recipe, spec, parent)
    if teacher_run is not None:
        resources["teacher"] = _load_teacher(recipe, spec, teacher_run, read_images)
        origin["teacher"] = source(teacher_run.path, teacher_run.weights())
        if tape and recipe.objective["name"] == TRANSFER:
            sized = replace(recipe, training=training.resolved(len(read_images())))
            taught, function = _resolve_dataset(sized, dataset), model_digest(teacher_run.recipe)
            resources["tape"] = open_tape(teacher_run, function, taught, read_images(), spec.classes)
    if soft_labels is not None:
        path = Path(soft_labels)
        resources["soft_labels"] = _load_soft_labels(path, read_images, spec.classes)
        origin["soft_labels"] = source(path, path)
    objective = _make_objective(recipe, resources)
    model = make_model(recipe, spec)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise RecipeError(f"the model {recipe.model['name']!r} has no weights to train: use it as a teacher instead")
    objective.check_model(model)
    for key, run in part_runs.items():
        origin[key] = _fill_model_part(model, key, run)
    if initial_run is not None:
        origin["initial"] = _load_initial(model, spec, initial_run)
    images = read_images()
    training = training.resolved(len(images))
    resolved = _resolve(replace(recipe, training=training), dataset, objective)
    return Components(resolved, training, dataset, images, model, spec, objective, origin)


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


def source(path: Path, file: Path) -> dict[str, str]:
    """Return path and hash of something that the training starts from, for origin.json."""
    return {"path": str(path.resolve()), "hash": disk.digest(file)}


# Data


def open_dataset(recipe: Recipe, data: Path | None, base: Path | None = None) -> Dataset:
    """Open the dataset of a recipe; `data` overrides its path, and a path in the recipe is relative to `base`."""
    fields = fields_of(recipe.dataset)
    if data is not None:
        fields["path"] = str(data)
    elif base is not None and fields.get("path"):
        fields["path"] = os.path.normpath(base / fields["path"])
        if not Path(fields["path"]).exists() and os.environ.get("RADII_DATA"):
            del fields["path"]  # it has moved, to RADII_DATA
    return datasets.create(recipe.dataset["name"], **fields)


def dataset_of(run: Run, data: Path | None) -> Dataset:
    """Open the dataset that a run was trained on, at `data` or at the path in the run, if this user named it before."""
    table = run.recipe.dataset
    if data is not None:
        trust.record_data(data)
    elif table.get("path"):
        trust.require_data(run.path / table["path"], table["name"], run.path)
    dataset = open_dataset(run.recipe, data, run.path)
    check_classes(run.class_names(), dataset, str(run.path))
    return dataset


class OtherClassesError(RunError):
    """Images whose labels mean other classes than the model's."""


def check_classes(known: Sequence[str], dataset: Dataset, model: str) -> None:
    """Raise an OtherClassesError if a label of the dataset would mean another class than the model's.

    A dataset may lack the model's last classes, and may call its classes by their numbers. `known` is empty for a model
    that does not record its classes.
    """
    named = tuple(dataset.class_names)
    numbers = tuple(map(str, range(min(len(named), len(known)))))
    if not known or named in (tuple(known[: len(named)]), numbers):
        return
    new, gone = ([name for name in one if name not in other] for one, other in ((named, known), (known, named)))
    differing = [
        *([f"it lacks {_listed(gone)}"] if gone else []),
        *([f"{_listed(new)} {'is' if len(new) == 1 else 'are'} unknown to the model"] if new else []),
    ]
    where = f"the dataset {dataset.name!r}{f' at {dataset.data}' if dataset.data else ''}"
    raise OtherClassesError(
        f"{where} has other classes than {model}: {' and '.join(differing) or f'their order is {_listed(named)}'}. "
        f"Name and order them as in training: {_listed(known)}"
    )


def _listed(names: Sequence[str]) -> str:
    """List class names; of many, the first."""
    shown = ", ".join(readers.short_repr(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def dataset_fields(dataset: Dataset) -> dict[str, Any]:
    """Return the fields of a dataset that have a value, its path among them."""
    fields = {setting.name: getattr(dataset, setting.name) for setting in settings_of(type(dataset))}
    if dataset.data is not None:
        fields["path"] = str(dataset.data)
    return {name: value for name, value in fields.items() if value is not None}


def spread_images(images: Images, count: int) -> Tensor:
    """Return `count` images spread evenly over a split, which may be sorted by class; all if it has fewer."""
    return images.batch(torch.tensor(datasets.spread_evenly(range(len(images)), count)))


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
    theirs, their_spec = run.recipe, model_spec(run)
    pairs = {
        "dataset": (theirs.dataset["name"], recipe.dataset["name"]),
        "sigma": (theirs.sigma, recipe.sigma),
        "number of classes": (their_spec.classes, spec.classes),
        "image size": (their_spec.shape, spec.shape),
    }
    for what, (value, expected) in pairs.items():
        if value != expected:
            raise RunError(f"the teacher {run.path} has another {what}: {value}, the student has {expected}")
    if (names := run.class_names()) and names != spec.class_names:
        one, other = (_listed(names), _listed(spec.class_names))
        raise RunError(f"the teacher {run.path} has other classes: {one}, the student has {other}, in this order")
    model = trained_model(run)
    probe = spread_images(read_images(), PROBE_IMAGES)
    noisy = probe + recipe.sigma * torch.randn(probe.shape, generator=generator("cpu", "probe", 3))
    return engines.folded(model, noisy.to(default_device()))


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


# Weights that training starts from


def _inherit_normalisation(recipe: Recipe, spec: ModelSpec, source: Run | None) -> ModelSpec:
    """Take over the constants of a teacher or of the run that training starts from, if both normalise alike.

    The constants may have been stated when the model was imported, and then they are not the dataset's.
    """
    if source is None or not source.path.is_dir() or source.recipe.normalisation != recipe.normalisation:
        return spec
    return spec._replace(normalisation=model_spec(source).normalisation)


def _load_initial(model: nn.Module, spec: ModelSpec, run: Run) -> dict[str, str]:
    """Load the weights of a run or of a file, which fine-tuning starts from; return their path and hash."""
    weights = run.path
    if weights.is_dir():
        weights = run.weights()
        theirs = _expect_same_images(run, spec)
        if theirs.normalisation != spec.normalisation:
            raise RunError(
                f"{run.path} normalises its pixels by {tuple(theirs.normalisation)}, "
                f"this recipe by {tuple(spec.normalisation)}: state normalisation = {run.recipe.normalisation!r}"
            )
    load_weights(model, weights, "this recipe's model")
    return source(run.path, weights)


def combine_runs(
    recipe: Recipe, dataset: Dataset, trust: Collection[str] = ()
) -> tuple[Recipe, nn.Sequential, ModelSpec, dict[str, dict[str, str]]]:
    """Make the model of a recipe that names runs inside it, with their weights and without training.

    Returns the recipe with the runs' models in their place, the model, its spec, and the origin of its weights.
    """
    recipe, spec, runs = _resolve_model_parts(recipe, spec_for(recipe, dataset), trust)
    model = make_model(recipe, spec)
    origin = {key: _fill_model_part(model, key, run) for key, run in runs.items()}
    fields = models.resolved(recipe.model["name"], fields_of(recipe.model))
    return replace(recipe, model={"name": recipe.model["name"], **fields}), model, spec, origin


def _resolve_model_parts(
    recipe: Recipe, spec: ModelSpec, trust: Collection[str]
) -> tuple[Recipe, ModelSpec, dict[str, Run]]:
    """Replace the runs that a recipe names inside its model, such as a denoiser's classifier, by their models' fields.

    Returns these runs too, by the name of their module. The images are then normalised as in these runs.
    """
    runs: dict[str, Run] = {}
    for key in models.parts(recipe.model["name"]):
        part = recipe.model.get(key)
        if isinstance(part, tuple):
            names = {number: f"{key}.{number}" for number in range(len(part))}
            runs |= {names[number]: Run(item, trust) for number, item in enumerate(part) if _is_run(item)}
            tables = [runs[names[n]].recipe.model if names[n] in runs else item for n, item in enumerate(part)]
            recipe = replace(recipe, model={**recipe.model, key: tuple(tables)})
        elif isinstance(part, str):
            runs[key] = Run(part, trust)
            recipe = replace(recipe, model={**recipe.model, key: runs[key].recipe.model})
        elif part is not None:
            _expect_weights(recipe, key, part)
    if runs:
        spec = _shared_normalisation(spec, list(runs.values()))
        recipe = replace(recipe, normalisation=next(iter(runs.values())).recipe.normalisation)
    return recipe, spec, runs


def _is_run(part: Any) -> bool:
    """Return whether a member of a list of models is a run's path; a name alone is an architecture."""
    return isinstance(part, str) and part not in models.names()


def _shared_normalisation(spec: ModelSpec, runs: Sequence[Run]) -> ModelSpec:
    """Return the spec with the normalisation of the runs inside a model; raise a RunError if they have several."""
    first, *others = [_expect_same_images(run, spec).normalisation for run in runs]
    for run, constants in zip(runs[1:], others, strict=True):
        if constants != first:
            raise RunError(
                f"{run.path} normalises its pixels by {tuple(constants)}, {runs[0].path} by {tuple(first)}: "
                "combine runs of one normalisation"
            )
    return spec._replace(normalisation=first)


def _expect_weights(recipe: Recipe, key: str, part: Any) -> None:
    """Raise a ParameterError for a model inside the model whose weights would stay random."""
    initial = recipe.training.initial if recipe.training else None
    if initial is None and ":" not in str(part.get("name")):
        raise ParameterError(
            f"the {key} of the model {recipe.model['name']!r} has no weights: "
            f"expected the path of a trained run, such as {key} = 'runs/NAME'"
        )


def _fill_model_part(model: nn.Sequential, key: str, run: Run) -> dict[str, str]:
    """Load the weights of a run into the model inside the model; return their path and hash."""
    try:
        part = model[1].get_submodule(key)
    except AttributeError:
        raise ValueError(f"the model has no module {key!r}: keep it under the name of its parameter") from None
    load_weights(part, run.weights(), run.recipe.model["name"])
    return source(run.path, run.weights())


def _expect_same_images(run: Run, spec: ModelSpec) -> ModelSpec:
    """Return the spec of a run's model; raise a RunError if it takes other images or has other classes."""
    theirs = model_spec(run)
    if (theirs.shape, theirs.classes) != (spec.shape, spec.classes):
        raise RunError(
            f"{run.path} takes images {theirs.shape} in {theirs.classes} classes, not {spec.shape} in {spec.classes}"
        )
    return theirs

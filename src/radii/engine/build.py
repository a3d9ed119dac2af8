"""Everything a run needs, made and checked before the first step of work."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from radii import datasets, models, objectives
from radii.datasets import Dataset
from radii.experiment.recipe import Recipe
from radii.experiment.run import Run, RunError
from radii.fields import settings_of
from radii.objectives import Objective
from radii.smoothing.classifier import SmoothedClassifier
from radii.smoothing.normalisation import NONE, Normalisation


@dataclass(frozen=True)
class Parts:
    """A recipe come alive."""

    recipe: Recipe
    """Resolved: every field of the objective stated."""
    dataset: Dataset
    model: nn.Module
    objective: Objective


def build(recipe: Recipe, data: Path | None = None, resources: Mapping[str, Any] | None = None) -> Parts:
    """Make the parts of a recipe, or fail before any work is done."""
    dataset = datasets.create(recipe.dataset, data)
    fields = dict(recipe.objective)
    objective = objectives.create(fields.pop("name"), sigma=recipe.sigma, **fields, **(resources or {}))
    model = make_model(recipe, dataset)
    return Parts(replace(recipe, objective=_resolved(recipe, objective)), dataset, model, objective)


def make_model(recipe: Recipe, dataset: Dataset) -> nn.Module:
    """The untrained model of a recipe: its weights depend on the recipe's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = models.create(
            recipe.model,
            shape=dataset.shape,
            classes=dataset.classes,
            normalisation=normalisation(recipe, dataset),
        )
    return model.to(memory_format=torch.channels_last)


def normalisation(recipe: Recipe, dataset: Dataset) -> Normalisation:
    constants = dataset.normalisation
    if recipe.normalisation == "none" or not constants.mean:
        return NONE
    if recipe.normalisation == "centre":
        return Normalisation(constants.mean, tuple(1.0 for _ in constants.mean))
    return constants


def trained_model(run: Run, dataset: Dataset) -> nn.Module:
    """The model of a finished run with its weights, in eval mode."""
    model = make_model(run.recipe, dataset)
    try:
        model.load_state_dict(load_file(run.weights()))
    except Exception as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{run.weights_file} does not hold the weights of {run.recipe.model}: {error}") from error
    return model.eval().to(device())


def load(run: Run | Path | str, data: Path | None = None, batch_size: int = 128) -> SmoothedClassifier:
    """The smoothed classifier of a finished run."""
    run = run if isinstance(run, Run) else Run(run)
    dataset = datasets.create(run.recipe.dataset, data)
    return SmoothedClassifier(
        trained_model(run, dataset), sigma=run.recipe.sigma, classes=dataset.classes, batch_size=batch_size
    )


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _resolved(recipe: Recipe, objective: Objective) -> dict[str, Any]:
    stated = {f.name: getattr(objective, f.name) for f in settings_of(type(objective)) if f.name != "sigma"}
    return {"name": recipe.objective["name"], **stated}

"""The runs that the parts of a model are taken from: a classifier that a denoiser is put in front of."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from radii import disk, models
from radii.errors import ParameterError
from radii.runs.recipe import Recipe
from radii.runs.run import Run, RunError
from radii.training.weights import ModelSpec, load_weights, model_spec


def with_parts(recipe: Recipe, spec: ModelSpec, trust: Collection[str]) -> tuple[Recipe, ModelSpec, dict[str, Run]]:
    """The recipe with the tables of the models in place of the runs that it names as parts, and those runs.

    The images are normalised as the part's own run has it.
    """
    runs: dict[str, Run] = {}
    for key in models.parts(recipe.model["name"]):
        part = recipe.model.get(key)
        if isinstance(part, str):
            runs[key] = run = Run(part, trust)
            theirs = run.recipe
            expect_same_images(run, spec)
            recipe = replace(recipe, model={**recipe.model, key: theirs.model}, normalisation=theirs.normalisation)
            spec = spec._replace(normalisation=model_spec(run).normalisation)
        elif part is not None:
            _expect_weights(recipe, key, part)
    return recipe, spec, runs


def _expect_weights(recipe: Recipe, key: str, part: Any) -> None:
    """Refuse a part whose weights would be random: a model of the package that no run or file fills."""
    initial = recipe.training.initial if recipe.training else None
    if initial is None and ":" not in str(part.get("name")):
        raise ParameterError(
            f"the {key} of the model {recipe.model['name']!r} has no weights: "
            f"expected the path of a trained run, such as {key} = 'runs/NAME'"
        )


def fill_part(model: nn.Sequential, key: str, run: Run) -> dict[str, str]:
    """Copy the weights of a run into the part of a model; returns what they were, for the record."""
    part = getattr(model[1], key, None)
    if not isinstance(part, nn.Module):
        raise ValueError(f"the model keeps no module {key!r}, expected it under its parameter's name")
    load_weights(part, run.weights(), run.recipe.model["name"])
    return source_of(run.path, run.weights())


def expect_same_images(run: Run, spec: ModelSpec) -> None:
    """Refuse a run whose images or classes are others."""
    theirs = model_spec(run)
    if (theirs.shape, theirs.classes) != (spec.shape, spec.classes):
        raise RunError(
            f"{run.path} takes images {theirs.shape} in {theirs.classes} classes, not {spec.shape} in {spec.classes}"
        )


def source_of(path: Path, file: Path) -> dict[str, str]:
    """What something was made from, for the record."""
    return {"path": str(path.resolve()), "hash": disk.digest(file)}

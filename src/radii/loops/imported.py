"""The run directory of a classifier that was trained elsewhere."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from radii.datasets import Dataset
from radii.experiment import files
from radii.experiment.recipe import Recipe
from radii.experiment.run import Run
from radii.loops.components import stored
from radii.loops.environment import environment
from radii.loops.weights import ModelSpec, save_weights


def write_run(path: Path, recipe: Recipe, dataset: Dataset, model: nn.Module, spec: ModelSpec, file: Path) -> Run:
    """Write a run with these weights; `file` is where they come from."""
    run = Run(path)
    if dataset.data is not None:
        recipe = replace(recipe, dataset={**recipe.dataset, "path": str(dataset.data)})
    origin = {"checkpoint": {"path": str(file.resolve()), "hash": files.digest(file)}}
    with run.writing():
        run.claim(stored(recipe, run), origin)
        files.write_json(run.environment_file, environment())
        save_weights(run, model, spec)
    return run

"""Checkpoints that were trained elsewhere, as runs."""

from pathlib import Path

from radii.interop.imported import write_run
from radii.interop.tensor_files import fill, tensors_in
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.training.components import open_dataset
from radii.training.weights import make_model, spec_for


def import_checkpoint(checkpoint: Path, recipe: Recipe, path: Path, *, data: Path | None = None) -> Run:
    """Make a run from a checkpoint that was trained elsewhere; a file that needs code to be unpickled is refused."""
    dataset = open_dataset(recipe, data)
    spec = spec_for(recipe, dataset)
    model = make_model(recipe, spec)
    fill(model[1], tensors_in(checkpoint), checkpoint, recipe.model["name"])
    return write_run(path, recipe, dataset, model.eval(), spec, checkpoint)

"""The recipe that goes on from a trained run: fine-tuning its model, or putting a denoiser in front of it."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from radii.runs import recipe as recipes
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run

DENOISING = "denoising"
"""The objective that leaves a model as it is and trains a denoiser in front of it."""

TRANSFER = "transfer"
"""The objective of a student."""

SCHEDULE = Training(epochs=10, images_per_step=128, learning_rate=0.01, schedule="one_cycle")
DENOISER_SCHEDULE = replace(SCHEDULE, learning_rate=3e-3, optimizer="adamw")
"""Where no recipe is shipped for the dataset and objective."""


def recipe_from(run: Run, method: Path | str, settings: Sequence[str] = ()) -> Recipe:
    """The recipe of a method for the data, the model, the normalisation and the sigma of a trained run.

    `method` is a recipe, or the name of an objective, whose shipped recipe for the run's dataset is taken if there is
    one. It gives the objective's fields and the schedule; `settings` lie over all of it.
    """
    trained = run.recipe
    offered = _recipe_of(method, trained)
    wanted = replace(
        offered, dataset=_dataset(run), model=trained.model, sigma=trained.sigma, normalisation=trained.normalisation
    )
    if offered.objective["name"] == DENOISING:
        wanted = replace(wanted, model={**offered.model, "classifier": str(run.path)})
    elif offered.training is not None:
        wanted = replace(wanted, training=replace(offered.training, initial=str(run.path)))
    return recipes.with_settings(wanted, str(method), settings)


def transfer_recipe(teacher: Run, settings: Sequence[str] = ()) -> Recipe:
    """The recipe of a teacher's students: the shipped one of its dataset, of the nearest sigma, or the usual one."""
    taught = teacher.recipe
    offered = _recipe_of(TRANSFER, taught)
    wanted = replace(offered, dataset=taught.dataset["name"], sigma=taught.sigma)
    return recipes.with_settings(wanted, f"the transfer from {teacher.path}", settings)


def _recipe_of(method: Path | str, trained: Recipe) -> Recipe:
    """A recipe by its path or name, or the one of an objective."""
    name = str(method)
    if "/" in name or name.endswith(".toml"):
        return recipes.read(recipes.find(method))
    shipped = [found for path in recipes.shipped() if _is_of(path, name) and _fits(found := _read(path), name, trained)]
    nearest = sorted(shipped, key=lambda found: abs(found.sigma - trained.sigma))
    return nearest[0] if nearest else _usual(name, trained)


def _read(name: str) -> Recipe:
    return recipes.read(recipes.find(name))


def _is_of(path: str, objective: str) -> bool:
    return path.rpartition("/")[2].rpartition("-")[0] == objective


def _fits(found: Recipe, objective: str, trained: Recipe) -> bool:
    return (found.dataset["name"], found.objective["name"]) == (trained.dataset["name"], objective)


def _usual(objective: str, trained: Recipe) -> Recipe:
    """A recipe of an objective for which none is shipped."""
    if objective == DENOISING:
        return replace(trained, model="denoised", objective=objective, seed=0, training=DENOISER_SCHEDULE)
    return replace(trained, objective=objective, seed=0, training=SCHEDULE)


def _dataset(run: Run) -> dict[str, Any]:
    """The dataset of a run, found from here; where it has moved, the environment says where to."""
    table: dict[str, Any] = dict(run.recipe.dataset)
    if table.get("path"):
        table["path"] = os.path.normpath(run.path / table["path"])
        if not Path(table["path"]).exists() and os.environ.get("RADII_DATA"):
            del table["path"]
    return table

"""Make recipes with a profile's defaults: to fine-tune a run, to train its students, or to train from scratch."""

import math
from collections.abc import Sequence
from pathlib import Path

from radii.runs import profiles
from radii.runs.recipe import Recipe, RecipeError, apply_settings, with_settings
from radii.runs.run import Run
from radii.runs.trust import require_data
from radii.training.open_dataset import dataset_of, open_dataset


def fine_tuning_recipe(run: Run, method: Path | str, settings: Sequence[str] = (), data: Path | None = None) -> Recipe:
    """Make the recipe that fine-tunes a run, or trains a denoiser in front of it."""
    stated = profiles.recipe_from(run.recipe, run.path, method, profiles.FEW, settings)
    path = stated.dataset.get("path")
    if data is None and path and not any(key.startswith("dataset") for key in settings):
        require_data(Path(path), stated.dataset["name"], run.path)
    dataset = open_dataset(stated, data)
    images, pixels = len(dataset.part("train")), math.prod(dataset.shape[1:])
    return profiles.recipe_from(run.recipe, run.path, method, images, settings, pixels=pixels)


def student_recipe(teacher: Run, settings: Sequence[str] = (), data: Path | None = None) -> Recipe:
    """Make the recipe of a teacher's students."""
    images = len(dataset_of(teacher, data).part("train"))
    return profiles.transfer_recipe(teacher.recipe, images, settings)


def scratch_recipe(objective: str, settings: Sequence[str], data: Path | None = None) -> Recipe:
    """Make the recipe of an objective from settings, which have to state dataset, model and sigma."""
    values = apply_settings({}, settings)
    if missing := [key for key in ("dataset", "model", "sigma") if key not in values]:
        raise RecipeError(
            f"the objective {objective!r} needs {', '.join(missing)}: set them, or name a recipe of `radii list`"
        )

    def recipe_for(images: int) -> Recipe:
        # The settings replace this sigma, so that all of them are checked at once.
        base = profiles.scratch_recipe(objective, images, values["dataset"], values["model"], sigma=1.0)
        return with_settings(base, objective, settings)

    return recipe_for(len(open_dataset(recipe_for(profiles.FEW), data).part("train")))

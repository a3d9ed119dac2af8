"""Profiles: the defaults of training from scratch, fine-tuning and transfer, from the number of training images."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from radii.runs.recipe import Recipe, Spec, Training, find, named_table, read, shipped, with_settings

DENOISING = "denoising"
"""The objective that keeps a trained model and trains a denoiser in front of it."""
TRANSFER = "transfer"
"""The objective of a student."""
CONSISTENCY = "consistency"
USUAL_BATCH = 128
LEAST_BATCH = 16
STEPS_PER_EPOCH = 25
"""The fewest steps of an epoch, unless the batch would be smaller than LEAST_BATCH."""
FEW = 100_000
"""A folder with fewer training images than this does not get the schedule of ImageNet."""
DENOISED_PIXELS, LEAST_DENOISED = 1 << 17, 4
"""The pixels of a denoiser's step, at most, unless it would have fewer than LEAST_DENOISED images."""
DENOISER_RATE = 0.02
SMALL = 32 * 32
"""The pixels of an image, where nothing is known of it."""
WEIGHT_RAMP = 0.5
"""The share of fine-tuning over which the weights of `consistency` rise."""


def batch_size(images: int) -> int:
    """Return the images of a step: a power of two, fewer where there are few training images."""
    size = USUAL_BATCH
    while size > LEAST_BATCH and images / size < STEPS_PER_EPOCH:
        size //= 2
    return size


def fine_tuning(images: int) -> Training:
    """Return the schedule of fine-tuning: one cycle of a few epochs at a small rate."""
    return _one_cycle(images, seen=250_000, epochs=(2, 40), rate=0.04, weight_decay=5e-4)


def from_scratch(images: int) -> Training:
    """Return the schedule of a model that begins with random weights, a student's too."""
    return _one_cycle(images, seen=1_500_000, epochs=(20, 100), rate=0.1, weight_decay=5e-4)


def denoiser_training(images: int, pixels: int) -> Training:
    """Return the schedule of a denoiser, which learns from every pixel, so a step has few large images."""
    cycle = _one_cycle(images, seen=500_000, epochs=(5, 100), rate=DENOISER_RATE, weight_decay=1e-4)
    size = cycle.images_per_step
    while size > LEAST_DENOISED and size * pixels > DENOISED_PIXELS:
        size //= 2
    return replace(cycle, images_per_step=size, learning_rate=DENOISER_RATE, optimizer="muon", nesterov=False)


def _one_cycle(images: int, *, seen: int, epochs: tuple[int, int], rate: float, weight_decay: float) -> Training:
    """Return one cycle that sees about so many images, within a range of epochs; small batches get small rates."""
    size = batch_size(images)
    return Training(
        epochs=min(max(round(seen / images), epochs[0]), epochs[1]),
        images_per_step=size,
        learning_rate=rate * size / USUAL_BATCH,
        nesterov=True,
        weight_decay=weight_decay,
        schedule="one_cycle",
    )


def scratch_recipe(objective: str, images: int, dataset: Spec, model: Spec, sigma: float) -> Recipe:
    """Make the recipe of an objective where none is shipped: for so many training images."""
    return Recipe(dataset=dataset, model=model, sigma=sigma, objective=objective, training=from_scratch(images))


def recipe_from(
    trained: Recipe,
    folder: Path,
    method: Path | str,
    images: int,
    settings: Sequence[str] = (),
    *,
    pixels: int = SMALL,
) -> Recipe:
    """Make a recipe that continues from the trained run in `folder`, with its data, model, normalisation and sigma.

    `method` is a recipe, which gives the objective's fields and the schedule; or an objective. Then the schedule is
    that of fine-tuning with so many training images of so many pixels, and the fields are those of the shipped recipe
    for the run's dataset, if there is one. `settings` override all of it. `denoising` puts a denoiser in front of the
    run's model; any other objective fine-tunes it.
    """
    base = _method_recipe(method, trained)
    if not _is_recipe(method):
        base = _fine_tuned(base, images, pixels)
    recipe = replace(base, model=trained.model, sigma=trained.sigma, normalisation=trained.normalisation)
    recipe = replace(recipe, dataset=dataset_from(trained, folder))
    if base.objective["name"] == DENOISING:
        recipe = replace(recipe, model={**base.model, "classifier": str(folder)})
    elif base.training is not None:
        recipe = replace(recipe, training=replace(base.training, initial=str(folder)))
    return with_settings(recipe, str(method), settings)


def _fine_tuned(base: Recipe, images: int, pixels: int) -> Recipe:
    """Return a recipe with the schedule of fine-tuning; the weights of `consistency` rise, to begin as Gaussian."""
    if base.objective["name"] == DENOISING:
        return replace(base, training=denoiser_training(images, pixels))
    ramp = {"weight_ramp": WEIGHT_RAMP} if base.objective["name"] == CONSISTENCY else {}
    return replace(base, objective={**base.objective, **ramp}, training=fine_tuning(images))


def transfer_recipe(teacher: Recipe, images: int, settings: Sequence[str] = ()) -> Recipe:
    """Make the recipe of a teacher's students: the shipped one with the nearest sigma, or the schedule from scratch."""
    base = _method_recipe(TRANSFER, teacher)
    if base.training is None or (base.dataset["name"] == "folder" and images < FEW):
        base = replace(base, training=from_scratch(images))
    same = {"dataset": teacher.dataset["name"], "sigma": teacher.sigma, "normalisation": teacher.normalisation}
    return with_settings(replace(base, **same), "the transfer recipe", settings)


def dataset_from(trained: Recipe, folder: Path) -> dict[str, Any]:
    """Return the dataset of a run, with its path from here; if it has moved, RADII_DATA tells where to."""
    table: dict[str, Any] = dict(trained.dataset)
    if table.get("path"):
        table["path"] = os.path.normpath(folder / table["path"])
        if not Path(table["path"]).exists() and os.environ.get("RADII_DATA"):
            del table["path"]
    return table


def _is_recipe(method: Path | str) -> bool:
    return "/" in str(method) or str(method).endswith(".toml")


def _method_recipe(method: Path | str, trained: Recipe) -> Recipe:
    """Find a recipe by its path or name, or choose one for an objective; without a schedule if none is shipped."""
    name = str(method)
    if _is_recipe(method):
        return read(find(method))
    paths = [path for path in shipped() if path.rpartition("/")[2].rpartition("-")[0] == name]
    recipes = [read(find(path)) for path in paths]
    matching = [
        recipe
        for recipe in recipes
        if (recipe.dataset["name"], recipe.objective["name"]) == (trained.dataset["name"], name)
    ]
    if matching:
        return min(matching, key=lambda recipe: abs(recipe.sigma - trained.sigma))
    model: Spec = {"name": "denoised", "denoiser": "ffdnet"} if name == DENOISING else trained.model
    return replace(trained, model=model, objective=named_table(name, "objective"), seed=0, training=None)

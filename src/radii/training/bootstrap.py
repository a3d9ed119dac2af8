"""A first teacher for robustness transfer, trained from a recipe, with the soft labels that its method needs."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from radii import objectives
from radii.errors import MissingResourceError
from radii.runs import recipe as recipes
from radii.runs.recipe import Recipe, fields_of
from radii.runs.run import Run
from radii.training.soft_labels import soft_labels
from radii.training.train import OnStep, train

VOTES = 10_000


def bootstrap(
    recipe: Recipe,
    path: Path,
    *,
    voter: Recipe | None = None,
    votes: int = VOTES,
    data: Path | None = None,
    workers: int | None = None,
    trust: Collection[str] = (),
    on_step: OnStep = lambda _: None,
    on_image: Callable[[int, int], None] = lambda *_: None,
) -> Run:
    """Train a teacher; where its method learns from soft labels, first the run that votes on them, beside it.

    That run is of the recipe `voter`, by default `default_voter`. The same call continues where it stopped.
    """
    if votes < 1:
        raise ValueError(f"votes = {votes}, expected a whole number >= 1")
    if not needs_soft_labels(recipe):
        return train(recipe, path, data=data, trust=trust, on_step=on_step)
    voting = train(voter or default_voter(recipe), path.with_name(f"{path.name}-voter"), data=data, on_step=on_step)
    labels = soft_labels(voting, samples=votes, data=data, workers=workers, on_image=on_image)
    return train(recipe, path, data=data, soft_labels=labels, trust=trust, on_step=on_step)


def default_voter(recipe: Recipe) -> Recipe:
    """The shipped Gaussian recipe of a dataset at sigma 0.25, as in the CAT-RS paper, with this model and data."""
    shelf = "imagenet" if recipe.dataset["name"] == "folder" else recipe.dataset["name"]
    found = recipes.read(recipes.find(f"{shelf}/gaussian-0.25"))
    same = {key: getattr(recipe, key) for key in ("dataset", "model", "normalisation", "seed")}
    return replace(found, **same)


def needs_soft_labels(recipe: Recipe) -> bool:
    """Whether the objective of a recipe learns from soft labels."""
    try:
        objectives.create(recipe.objective["name"], sigma=recipe.sigma, **fields_of(recipe.objective))
    except MissingResourceError as error:
        return error.parameter == "soft_labels"
    return False

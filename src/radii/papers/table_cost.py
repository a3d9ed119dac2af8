"""What the rows of a table would cost at a budget, estimated from timed steps and samples."""

from collections.abc import Collection

from radii.papers.budgets import Budget
from radii.papers.table import PaperTable, Row, System
from radii.papers.table_run import name_of
from radii.papers.table_timing import Timings
from radii.published_datasets import SIZES, Size, corrupted_sets
from radii.runs.recipe import Recipe


def row_cost(table: PaperTable, row: Row, budget: Budget, timings: Timings) -> dict[str, float] | None:
    """The seconds to make a row at a budget, by its parts: a training that rows share has the same name in each.

    Everything that the row learns from is included; none where the cost is not known.
    """
    system = row.trainable
    if system is None or table.kind == "settings":
        return None
    training = _system_cost(system, table.varies, budget, timings)
    if training is None or table.kind == "time":
        return training
    recipe = budget.recipe(system, table.varies)
    seconds = timings.of(recipe, _teacher(system, budget))
    name = name_of(system, budget, table.varies, 0)
    return None if seconds is None else training | {f"certify {name}": seconds.sample * _samples(table, recipe, budget)}


def _samples(table: PaperTable, recipe: Recipe, budget: Budget) -> int:
    sets = corrupted_sets(table.dataset[0]) if table.kind == "corruptions" else [recipe.dataset]
    names = [each["name"] for each in sets]
    sizes = [(name, _size(name)) for name in names]
    return sum(-(-size.test // budget.every_of(name)) for name, size in sizes if size) * budget.estimation


def _size(dataset: str) -> Size | None:
    """Return the published size of a dataset; a folder is taken for ImageNet."""
    return SIZES.get("imagenet" if dataset == "folder" else dataset)


def _system_cost(system: System, varies: Collection[str], budget: Budget, timings: Timings) -> dict[str, float] | None:
    """The seconds to train a system and all that it learns from."""
    recipe = budget.recipe(system, varies)
    seconds = timings.of(recipe, _teacher(system, budget))
    size = _size(recipe.dataset["name"])
    if seconds is None or recipe.training is None or size is None:
        return None
    images = size.train
    whole = {name_of(system, budget, varies, 0): seconds.training * images * recipe.training.epochs}
    for key, source in system.sources().items():
        below = _system_cost(source, (), budget, timings)
        if below is None:
            return None
        whole |= below | (_votes(source, images, budget, timings) if key == "soft_labels" else {})
    return whole


def _votes(system: System, images: int, budget: Budget, timings: Timings) -> dict[str, float]:
    voted = timings.of(budget.recipe(system))
    cost = voted.sample * images * budget.soft_label_samples if voted else 0.0
    return {f"votes of {name_of(system, budget, (), 0)}": cost}


def _teacher(system: System, budget: Budget) -> Recipe | None:
    return budget.recipe(system.teacher) if system.teacher else None

"""Budgets: what a row of a table may cost, as settings on top of its recipe and of its certification."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from radii.fields import check, did_you_mean, from_mapping, option
from radii.papers.table import BUDGETS, System, TableError, folder
from radii.runs import readers
from radii.runs.recipe import Recipe, Training, find, read

IN_EPOCHS = ("warmup_epochs", "start_epoch", "double_at")
"""Fields of objectives that count epochs: a budget with fewer epochs scales them, and 0 stays 0."""

AT_LEAST_EVERY = {"folder": 100, "cifar10_c": 100}
"""The papers certify every 100th of ImageNet's 50,000 validation images, and of the 50,000 of a kind of CIFAR-10-C."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much is trained and certified for a row."""

    name: str
    about: str
    epochs: int | None = option(None, ge=1)
    """By default the recipe's."""
    settings: tuple[str, ...] = ()
    datasets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further settings for the recipes of a dataset."""
    every: int = option(ge=1)
    estimation: int = option(ge=1)
    """Samples of the certifier `fixed`."""
    soft_label_samples: int = option(ge=1)

    def __post_init__(self) -> None:
        check(self, f"budget {self.name!r}")

    def every_of(self, dataset: str) -> int:
        """Every how many test images of a dataset are certified: where the papers choose some, no more than they."""
        return max(self.every, AT_LEAST_EVERY.get(dataset, 1))

    def recipe(self, system: System, varies: Collection[str] = (), seed: int = 0) -> Recipe:
        """What to train for a system; the hyper-parameters that a table `varies` stay the system's own."""
        wanted = system.read()
        stated = [*self.settings, *self.datasets.get(wanted.dataset["name"], ())]
        kept = [setting for setting in stated if setting.partition("=")[0] not in varies]
        cheaper = read(find(system.recipe), [*system.settings, *kept, f"seed={seed}"])
        return cheaper if self.epochs is None else _shortened(cheaper, self.epochs, varies)


def _shortened(recipe: Recipe, epochs: int, varies: Collection[str]) -> Recipe:
    """The recipe in as many epochs, with the parts of the objective at the same share of the training."""
    training = recipe.training
    if training is None or "training.epochs" in varies:
        return recipe
    share = epochs / training.epochs
    scaled = {key: _scaled(recipe.objective[key], share) for key in IN_EPOCHS if recipe.objective.get(key)}
    return replace(
        recipe, objective={**recipe.objective, **scaled}, training=_training(training, epochs, share, varies)
    )


def _training(training: Training, epochs: int, share: float, varies: Collection[str]) -> Training:
    counted = {
        "decay_every": _scaled(training.decay_every, share),
        "decay_at": tuple(_scaled(epoch, share) for epoch in training.decay_at),
        "warmup_epochs": _scaled(training.warmup_epochs, share) if training.warmup_epochs else 0,
    }
    stated = {key: value for key, value in counted.items() if f"training.{key}" not in varies}
    return replace(training, epochs=epochs, **stated)  # type: ignore[arg-type]


def _scaled(epochs: int, share: float) -> int:
    return max(1, round(epochs * share))


@lru_cache(maxsize=1)
def budgets() -> dict[str, Budget]:
    """The budgets of tables/budgets.toml, the smallest first."""
    path = folder() / f"{BUDGETS}.toml"
    values = tomllib.loads(readers.text(path))
    return {name: _budget(name, stated) for name, stated in values.items()}


def _budget(name: str, stated: Mapping[str, Any]) -> Budget:
    lists = {"settings": tuple(stated.get("settings", ()))}
    datasets = {key: tuple(each) for key, each in stated.get("datasets", {}).items()}
    made: Budget = from_mapping(Budget, {**stated, **lists, "datasets": datasets, "name": name}, f"budget {name!r}")
    return made


def find_budget(name: str) -> Budget:
    """A budget by its name."""
    known = budgets()
    if name not in known:
        raise TableError(f"there is no budget {name!r}{did_you_mean(name, known)}")
    return known[name]

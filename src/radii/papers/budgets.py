"""Budgets: how long to train and how much to certify for a row of a table.

`identity` returns what no budget changes in a recipe, `schedule` what a budget does change.
"""

import hashlib
import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from radii import plugins
from radii.fields import check, did_you_mean, from_mapping, option
from radii.papers.tables import BUDGETS, System, TableError, folder
from radii.runs import readers
from radii.runs.recipe import Recipe, Training, with_settings

IN_EPOCHS = ("warmup_epochs", "start_epoch", "double_at")
"""Fields of objectives that count epochs; a budget with fewer epochs scales them, and 0 stays 0."""
AT_LEAST_EVERY = {"folder": 100, "cifar10_c": 100}
"""The papers certify every 100th of the 50,000 images of ImageNet's validation set and of each kind of CIFAR-10-C."""
REGISTRIES = {"dataset": "datasets", "model": "models", "objective": "objectives"}
IMAGE_SIDE, SHORTER_SIDE = 224, 256
"""Pixels of an ImageNet test image, and of the photograph's shorter side before it is cropped."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train and how much to certify for a row."""

    name: str
    about: str
    epochs: int | None = option(None, ge=1)
    """None for the recipe's own epochs."""
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
        """Return n, where every nth test image is certified; where the papers choose images, no more than they do."""
        return max(self.every, AT_LEAST_EVERY.get(dataset, 1))

    def recipe(self, system: System, varies: Collection[str] = (), seed: int = 0) -> Recipe:
        """Return the recipe of a system at this budget; hyper-parameters that a table `varies` stay as they are."""
        full = system.load_recipe()
        settings = [*self.settings, *self.datasets.get(full.dataset["name"], ())]
        allowed = [setting for setting in settings if setting.partition("=")[0] not in varies]
        changed = with_settings(full, system.recipe, [*allowed, f"seed={seed}"])
        return changed if self.epochs is None else _shorten(changed, self.epochs, varies)

    def run_name(self, system: System, varies: Collection[str] = (), seed: int = 0) -> str:
        """Return the folder of a system's run: a readable name and a digest of what decides the run.

        The digest leaves out fields with their defaults, so that a later version finds the run again.
        """
        recipe = self.recipe(system, varies, seed)
        sources = {role: self.run_name(source, (), seed) for role, source in system.sources().items()}
        votes = self.soft_label_samples if system.soft_labels else None
        decisive = [identity(recipe), schedule(recipe), seed, sources, votes]
        digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
        stem = f"{recipe.dataset['name']}-{recipe.objective['name']}-{recipe.sigma:.2f}-{recipe.model['name']}"
        return f"{self.name}/{stem}-seed{seed}-{digest[:6]}".replace(":", "-")


def _shorten(recipe: Recipe, epochs: int, varies: Collection[str]) -> Recipe:
    """Change the number of epochs, and scale everything that counts epochs with it."""
    training = recipe.training
    if training is None or "training.epochs" in varies:
        return recipe
    share = epochs / training.epochs

    def scale(count: int) -> int:
        return max(1, round(count * share))

    counts = {
        "decay_every": scale(training.decay_every),
        "decay_at": tuple(map(scale, training.decay_at)),
        "warmup_epochs": scale(training.warmup_epochs) if training.warmup_epochs else 0,
    }
    allowed: dict[str, Any] = {key: value for key, value in counts.items() if f"training.{key}" not in varies}
    objective = {key: scale(recipe.objective[key]) for key in IN_EPOCHS if recipe.objective.get(key)}
    return replace(
        recipe,
        objective={**recipe.objective, **objective},
        training=replace(training, epochs=epochs, **allowed),
    )


@lru_cache(maxsize=1)
def budgets() -> dict[str, Budget]:
    """Read tables/budgets.toml: the budgets by name, the smallest first."""
    values = tomllib.loads(readers.text(folder() / f"{BUDGETS}.toml"))
    return {name: _budget(name, stated) for name, stated in values.items()}


def _budget(name: str, stated: Mapping[str, Any]) -> Budget:
    settings = tuple(stated.get("settings", ()))
    datasets = {key: tuple(settings) for key, settings in stated.get("datasets", {}).items()}
    values = {**stated, "settings": settings, "datasets": datasets, "name": name}
    budget: Budget = from_mapping(Budget, values, f"budget {name!r}")
    return budget


def find_budget(name: str) -> Budget:
    """Return the budget with this name."""
    known = budgets()
    if name not in known:
        raise TableError(f"there is no budget {name!r}{did_you_mean(name, known)}")
    return known[name]


def identity(recipe: Recipe, varies: Collection[str] = ()) -> str:
    """Return, as text, what a recipe trains, without the seed and the schedule.

    Fields with their defaults are left out, and so are fields of the training unless a table `varies` them.
    """
    training = asdict(recipe.training) if recipe.training else {}
    return json.dumps(
        {
            "sigma": recipe.sigma,
            "normalisation": recipe.normalisation,
            **{kind: _identity_fields(kind, getattr(recipe, kind)) for kind in REGISTRIES},
            "fine_tuned": training.get("initial") is not None,
            "varies": {key: training.get(key.partition(".")[2]) for key in varies if key.startswith("training.")},
        },
        sort_keys=True,
    )


def _identity_fields(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a component that differ from their defaults; of counts of epochs, whether they are 0."""
    usual = _defaults(REGISTRIES[kind], spec["name"])
    if spec["name"] == "folder":
        usual = usual | _folder_defaults(int(spec.get("size", IMAGE_SIDE)))
    differing = {key: value for key, value in spec.items() if key != "path" and value != usual.get(key)}
    numbers = {key: float(value) for key, value in differing.items() if type(value) is int}
    epochs = {key: bool(value) for key, value in _objective_epochs(spec).items()} if kind == "objective" else {}
    return {**differing, **numbers, **epochs}


def _folder_defaults(size: int) -> dict[str, Any]:
    """Return the defaults that a run on `folder` records although its recipe leaves them out."""
    resize = size * SHORTER_SIDE // IMAGE_SIDE if size >= IMAGE_SIDE else size
    return {"size": IMAGE_SIDE, "resize": resize, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


_defaults = lru_cache(maxsize=256)(plugins.defaults)


def _objective_epochs(objective: Mapping[str, Any]) -> dict[str, int]:
    stated = {**_defaults("objectives", objective["name"]), **objective}
    return {key: stated[key] for key in IN_EPOCHS if key in stated}


def schedule(recipe: Recipe) -> str:
    """Return, as text, the training of a recipe without its start, and without fields with defaults or without use."""
    training = asdict(recipe.training) if recipe.training else {}
    unused = {"step": ("decay_at",), "multi_step": ("decay_every",)}
    for key in ("initial", *unused.get(training.get("schedule", ""), ("decay", "decay_at", "decay_every"))):
        training.pop(key, None)
    usual = {field.name: field.default for field in fields(Training)}
    training = {key: value for key, value in training.items() if value != usual[key]}
    return json.dumps([training, _objective_epochs(recipe.objective)], sort_keys=True)

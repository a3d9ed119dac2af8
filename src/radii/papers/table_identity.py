"""What a recipe trains, and how long: two recipes of the same model may state more or fewer of their fields."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from radii import plugins
from radii.papers.budgets import IN_EPOCHS
from radii.runs.recipe import Recipe, Training

REGISTRIES = {"dataset": "datasets", "model": "models", "objective": "objectives"}
SIDE, SHORTER_SIDE = 224, 256
"""Of photographs as ImageNet's are tested."""


def identity(wanted: Recipe, varies: Collection[str] = ()) -> str:
    """What a recipe trains, without how long: training, seed, and the length of what the objective counts in epochs."""
    stated: dict[str, Any] = {"sigma": wanted.sigma, "normalisation": wanted.normalisation}
    for kind in REGISTRIES:
        stated[kind] = _stated(kind, getattr(wanted, kind))
    training = asdict(wanted.training) if wanted.training else {}
    stated["fine_tuned"] = training.get("initial") is not None
    stated["varies"] = {key: training.get(key.partition(".")[2]) for key in varies if key.startswith("training.")}
    return json.dumps(stated, sort_keys=True)


def _stated(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a component that differ from their defaults: a file may state them or not."""
    usual = _defaults(REGISTRIES[kind], spec["name"])
    if spec["name"] == "folder":
        usual = usual | _of_photographs(int(spec.get("size", SIDE)))
    kept = {key: _number(value) for key, value in spec.items() if key != "path" and value != usual.get(key)}
    counted = {key: bool(value) for key, value in in_epochs(spec).items()} if kind == "objective" else {}
    return {**kept, **counted}


def _of_photographs(size: int) -> dict[str, Any]:
    """What a run of `folder` states where its recipe left it out."""
    resize = size * SHORTER_SIDE // SIDE if size >= SIDE else size
    return {"size": SIDE, "resize": resize, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


_defaults = lru_cache(maxsize=256)(plugins.defaults)


def in_epochs(objective: Mapping[str, Any]) -> dict[str, int]:
    """The fields of an objective that count epochs."""
    stated = {**_defaults("objectives", objective["name"]), **objective}
    return {key: stated[key] for key in IN_EPOCHS if key in stated}


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def schedule(wanted: Recipe) -> str:
    """How long and how a recipe trains; what has its default is left out, whether it is stated or not."""
    training = asdict(wanted.training) if wanted.training else {}
    unused = {"step": ("decay_at",), "multi_step": ("decay_every",)}
    for key in ("initial", *unused.get(training.get("schedule", ""), ("decay", "decay_at", "decay_every"))):
        training.pop(key, None)
    usual = {each.name: each.default for each in fields(Training)}
    training = {key: value for key, value in training.items() if value != usual[key]}
    return json.dumps([training, in_epochs(wanted.objective)], sort_keys=True)

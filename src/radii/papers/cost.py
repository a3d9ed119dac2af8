"""Estimate what a row of a table costs at a budget, from a few training steps and samples timed on this machine.

Steps and samples are timed on random images; the times are kept in a file.
"""

import json
import math
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from radii import disk, objectives, plugins
from radii.datasets import Dataset
from radii.device import default_device, wait_for
from radii.objectives import Batch, Objective, Step
from radii.papers.budgets import IN_EPOCHS, Budget
from radii.papers.tables import PaperTable, Row, System
from radii.published_datasets import SIZES, Size, corrupted_sets
from radii.runs import readers
from radii.runs.recipe import Recipe, fields_of
from radii.smoothing.addresses import generator
from radii.smoothing.forward import evaluating
from radii.smoothing.normalisation import NONE
from radii.training.weights import ModelSpec, make_model

CACHE = "table-times.json"
FEWEST_IMAGES, MOST_IMAGES, TIMED_SAMPLES = 4, 64, 128
LONG = 0.5
"""Seconds. A shorter step is timed again on more images, up to the recipe's, so that its fixed cost weighs less."""
REPEATS = 3
LATE_EPOCH = 10_000
"""An epoch at which all terms of an objective are active."""
IMAGENET_SHAPE = (3, 224, 224)


class Seconds(NamedTuple):
    """Seconds for one image in a training step, and for one noisy copy in certification."""

    training: float
    sample: float


def row_cost(table: PaperTable, row: Row, budget: Budget, timings: "Timings") -> dict[str, float] | None:
    """Return the seconds to make a row at a budget, by the name of a run or votes; None if they are unknown.

    Everything that the row learns from is included. What two rows share has the same name.
    """
    system = row.trainable
    if system is None or table.kind == "settings":
        return None
    training = _training_cost(system, table.varies, budget, timings)
    if training is None or table.kind == "time":
        return training
    recipe = budget.recipe(system, table.varies)
    seconds = timings.of(recipe, budget.recipe(system.teacher) if system.teacher else None)
    if seconds is None:
        return None
    sets = corrupted_sets(table.dataset[0]) if table.kind == "corruptions" else [recipe.dataset]
    sizes = [(spec["name"], _size(spec["name"])) for spec in sets]
    images = sum(math.ceil(size.test / budget.every_of(name)) for name, size in sizes if size)
    return training | {f"certify {budget.run_name(system, table.varies)}": seconds.sample * images * budget.estimation}


def _training_cost(
    system: System, varies: Collection[str], budget: Budget, timings: "Timings"
) -> dict[str, float] | None:
    """Return the seconds to train a system and everything that it learns from, by name."""
    recipe = budget.recipe(system, varies)
    seconds = timings.of(recipe, budget.recipe(system.teacher) if system.teacher else None)
    size = _size(recipe.dataset["name"])
    if seconds is None or recipe.training is None or size is None:
        return None
    costs = {budget.run_name(system, varies): seconds.training * size.train * recipe.training.epochs}
    for role, source in system.sources().items():
        before = _training_cost(source, (), budget, timings)
        if before is None:
            return None
        costs |= before
        if role == "soft_labels":
            voter = timings.of(budget.recipe(source))
            votes = voter.sample * size.train * budget.soft_label_samples if voter else 0.0
            costs[f"votes of {budget.run_name(source)}"] = votes
    return costs


def _size(dataset: str) -> Size | None:
    """Return the published size of a dataset; a folder is taken for ImageNet."""
    return SIZES.get("imagenet" if dataset == "folder" else dataset)


class Timings:
    """Times measured on this machine, kept in a file of a folder.

    What is not in the file is timed if `measure`. With `again`, what is there is timed again, because the machine may
    have been busy.
    """

    def __init__(
        self, folder: Path, *, measure: bool, again: bool = False, on_timed: Callable[[str], None] = lambda _: None
    ) -> None:
        self.file = folder / CACHE
        self.measure = measure
        self.on_timed = on_timed
        self._known = {} if again else _read_times(self.file).get(_machine(), {})
        self._samples: dict[str, float] = {}

    def of(self, recipe: Recipe, teacher: Recipe | None = None) -> Seconds | None:
        """Return the seconds of a recipe, taught by that of the teacher if given; None if they are not known."""
        taught_by = teacher.model if teacher else None
        objective = _cost_fields(recipe.objective)
        key = json.dumps((recipe.dataset["name"], recipe.model, objective, taught_by), sort_keys=True)
        if key not in self._known and self.measure:
            self._known[key] = [time_step(recipe, teacher), self._sample(recipe)]
            _keep_times(self.file, key, self._known[key])
            self.on_timed(f"{recipe.objective['name']} on {recipe.model['name']}")
        return Seconds(*self._known[key]) if key in self._known else None

    def _sample(self, recipe: Recipe) -> float:
        """Return the seconds of a sample, which do not depend on the objective."""
        key = json.dumps((recipe.dataset["name"], recipe.model), sort_keys=True)
        if key not in self._samples:
            self._samples[key] = time_sample(recipe)
        return self._samples[key]


def _cost_fields(objective: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the cost depends on; of a weight or a length, whether it is 0."""
    stated = {key: value for key, value in objective.items() if key not in IN_EPOCHS}
    return {key: value != 0 if isinstance(value, float) else value for key, value in stated.items()}


def _keep_times(file: Path, key: str, seconds: list[float]) -> None:
    """Add a time to the file, which other processes may change at the same time."""
    disk.make_folder(file.parent)
    with disk.locked(file, wait=True):
        times = _read_times(file)
        times.setdefault(_machine(), {})[key] = seconds
        disk.write_json(file, times)


def _read_times(file: Path) -> dict[str, dict[str, list[float]]]:
    """Return the times in a file, by machine; a damaged file counts as empty."""

    def is_time(value: Any) -> bool:
        pair = isinstance(value, list) and len(value) == len(Seconds._fields)
        return pair and all(isinstance(number, float) and math.isfinite(number) and number >= 0 for number in value)

    try:
        machines = readers.json_object(file)
    except (ValueError, OSError):
        return {}
    return {
        machine: {key: value for key, value in times.items() if is_time(value)} if isinstance(times, dict) else {}
        for machine, times in machines.items()
    }


def _machine() -> str:
    device = default_device().type
    kind = torch.backends.cpu.get_cpu_capability() if device == "cpu" else device
    return f"{kind}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, torch {torch.__version__}"


def time_step(recipe: Recipe, teacher: Recipe | None = None) -> float:
    """Return the seconds of one image in a training step, timed on a few random images."""
    device, spec = default_device(), _model_spec(recipe)
    model = make_model(recipe, spec).to(device).train()
    objective, optimizer = _objective(recipe, teacher, spec), torch.optim.SGD(model.parameters(), lr=1e-6)

    def seconds_of(count: int) -> float:
        images = torch.rand(count, *spec.shape, generator=torch.Generator().manual_seed(0)).to(device)
        numbers = torch.arange(count, device=device)
        batch = Batch(images, numbers % spec.classes, numbers)
        return _shortest(lambda: _step(objective, model, optimizer, batch))

    most = min(MOST_IMAGES, recipe.training.images_per_step) if recipe.training else FEWEST_IMAGES
    count = min(FEWEST_IMAGES, most)
    while (seconds := seconds_of(count)) < LONG and count < most:
        count = min(4 * count, most)
    return seconds / count


def _step(objective: Objective, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    step = Step(LATE_EPOCH, generator(default_device(), "time", len(batch.images)))
    optimizer.zero_grad()
    torch.stack([term.mean() for term in objective.terms(model, batch, step).values()]).sum().backward()
    optimizer.step()


def time_sample(recipe: Recipe) -> float:
    """Return the seconds of one noisy copy in a large forward pass; engines other than torch are faster."""
    device, spec = default_device(), _model_spec(recipe)
    model = make_model(recipe, spec).to(device)
    copies = torch.rand(TIMED_SAMPLES, *spec.shape).to(device).contiguous(memory_format=torch.channels_last)
    with evaluating(model), torch.inference_mode():
        return _shortest(lambda: model(copies)) / TIMED_SAMPLES


def _shortest(call: Callable[[], object]) -> float:
    """Return the shortest duration of a few calls on the default device; a long call is timed once."""
    device = default_device()

    def seconds() -> float:
        began = time.perf_counter()
        call()
        wait_for(device)
        return time.perf_counter() - began

    first = seconds()
    return first if first > LONG else min(seconds() for _ in range(REPEATS))


def _model_spec(recipe: Recipe) -> ModelSpec:
    """Return shape and classes of a recipe's images, without reading any; a folder is taken for ImageNet."""
    dataset = plugins.find("datasets", recipe.dataset["name"], Dataset)
    shape, names = getattr(dataset, "shape", None), getattr(dataset, "class_names", None)
    if not isinstance(shape, tuple) or not isinstance(names, tuple):
        shape, names = IMAGENET_SHAPE, range(SIZES["imagenet"].classes)
    return ModelSpec(shape, tuple(map(str, range(len(names)))), NONE)


def _objective(recipe: Recipe, teacher: Recipe | None, spec: ModelSpec) -> Objective:
    """Return the objective, with an untrained teacher or uniform soft labels where it needs them."""
    name, device = recipe.objective["name"], default_device()
    stand_ins: dict[str, Callable[[], Any]] = {
        "teacher": lambda: make_model(teacher or recipe, spec).to(device).eval(),
        "soft_labels": lambda: torch.full((MOST_IMAGES, spec.classes), 1 / spec.classes, device=device),
    }
    resources = {key: stand_ins[key]() for key in objectives.resources_of(name) if key in stand_ins}
    return objectives.create(name, sigma=recipe.sigma, **fields_of(recipe.objective), **resources)

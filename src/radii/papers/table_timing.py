"""How long a training step and a sample take on this machine: a few, on random images, kept in a file."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from radii import disk, objectives, plugins
from radii.datasets import Dataset
from radii.device import default_device
from radii.disk import locked
from radii.objectives import Batch, Objective, Step
from radii.papers.budgets import IN_EPOCHS
from radii.runs import readers
from radii.runs.recipe import Recipe, fields_of
from radii.smoothing.addresses import generator
from radii.smoothing.modes import evaluating
from radii.smoothing.normalisation import NONE
from radii.training.weights import ModelSpec, make_model

FEWEST_IMAGES, MOST_IMAGES, TIMED_SAMPLES = 4, 64, 128
LONG = 0.5
"""Seconds that are enough: shorter steps are timed again on more images, up to those of the recipe, since what a step
does once for all is much beside them."""
REPEATS = 3
CACHE = "table-times.json"
IMAGENET = (3, 224, 224), 1000
"""What a folder of images is taken for."""


class Seconds(NamedTuple):
    """Of one image in a training step, and of one noisy copy in certification."""

    training: float
    sample: float


class Timings:
    """What was timed on this machine, kept in a file of the folder; what is not there is timed if `measure`.

    With `again` what is there is timed anew: it may be of a time when the machine had other work.
    """

    def __init__(
        self, folder: Path, *, measure: bool, again: bool = False, on_timed: Callable[[str], None] = lambda _: None
    ) -> None:
        self.file = folder / CACHE
        self.measure = measure
        self.on_timed = on_timed
        self._known = {} if again else _read(self.file).get(_machine(), {})
        self._samples: dict[str, float] = {}

    def of(self, recipe: Recipe, teacher: Recipe | None = None) -> Seconds | None:
        """The seconds of a recipe that is taught by another, or by none; none where they are not known."""
        taught_by = teacher.model if teacher else None
        key = json.dumps((recipe.dataset["name"], recipe.model, _costing(recipe.objective), taught_by), sort_keys=True)
        if key not in self._known and self.measure:
            self._known[key] = [timed_step(recipe, teacher), self._sample(recipe)]
            _keep(self.file, key, self._known[key])
            self.on_timed(f"{recipe.objective['name']} on {recipe.model['name']}")
        return Seconds(*self._known[key]) if key in self._known else None

    def _sample(self, recipe: Recipe) -> float:
        """The seconds of a sample, which do not depend on the objective."""
        key = json.dumps((recipe.dataset["name"], recipe.model), sort_keys=True)
        if key not in self._samples:
            self._samples[key] = timed_sample(recipe)
        return self._samples[key]


def _costing(objective: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an objective that its cost depends on: of a weight or a length, only whether it is there."""
    stated = {key: value for key, value in objective.items() if key not in IN_EPOCHS}
    return {key: value != 0 if isinstance(value, float) else value for key, value in stated.items()}


def _keep(file: Path, key: str, seconds: list[float]) -> None:
    """Add a timing of this machine to the file, which another process may add to as well."""
    disk.make_folder(file.parent)
    with locked(file, wait=True):
        found = _read(file)
        found.setdefault(_machine(), {})[key] = seconds
        disk.write_json(file, found)


def _read(file: Path) -> dict[str, dict[str, list[float]]]:
    """The timings in a file, by machine; one that cannot be read is as none."""
    try:
        found = readers.json_object(file)
    except (ValueError, OSError):
        return {}
    return {machine: _timings(stated) for machine, stated in found.items()}


def _timings(stated: Any) -> dict[str, list[float]]:
    return {key: value for key, value in stated.items() if _is_timing(value)} if isinstance(stated, dict) else {}


def _is_timing(value: Any) -> bool:
    whole = isinstance(value, list) and len(value) == len(Seconds._fields)
    return whole and all(isinstance(each, float) and math.isfinite(each) and each >= 0 for each in value)


def _machine() -> str:
    device = default_device().type
    kind = torch.backends.cpu.get_cpu_capability() if device == "cpu" else device
    return f"{kind}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, torch {torch.__version__}"


def timed_step(recipe: Recipe, teacher: Recipe | None = None) -> float:
    """The seconds of one image in a training step, timed on a few random images."""
    device, spec = default_device(), _spec_of(recipe)
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


def timed_sample(recipe: Recipe) -> float:
    """The seconds of one noisy copy, in the forward pass of many; engines other than torch are faster."""
    device, spec = default_device(), _spec_of(recipe)
    model = make_model(recipe, spec).to(device)
    copies = torch.rand(TIMED_SAMPLES, *spec.shape).to(device).contiguous(memory_format=torch.channels_last)

    def sample() -> float:
        began = time.perf_counter()
        model(copies)
        return time.perf_counter() - began

    with evaluating(model), torch.inference_mode():
        return _shortest(sample) / TIMED_SAMPLES


def _shortest(timed: Callable[[], float]) -> float:
    """The shortest of a few times; one that is long is enough."""
    first = timed()
    return first if first > LONG else min(timed() for _ in range(REPEATS))


def _spec_of(recipe: Recipe) -> ModelSpec:
    shape, classes = _images_of(recipe)
    return ModelSpec(shape, tuple(map(str, range(classes))), NONE)


def _images_of(recipe: Recipe) -> tuple[tuple[int, int, int], int]:
    """The shape and the classes of a recipe's images, without any file of them."""
    kind = plugins.find("datasets", recipe.dataset["name"], Dataset)
    shape, names = getattr(kind, "shape", None), getattr(kind, "class_names", None)
    return (shape, len(names)) if isinstance(shape, tuple) and isinstance(names, tuple) else IMAGENET


def _objective(recipe: Recipe, teacher: Recipe | None, spec: ModelSpec) -> Objective:
    """The objective with stand-ins for what it learns from: an untrained teacher, soft labels without a preference."""
    name = recipe.objective["name"]
    offered: dict[str, Callable[[], Any]] = {
        "teacher": lambda: make_model(teacher or recipe, spec).to(default_device()).eval(),
        "soft_labels": lambda: torch.full((MOST_IMAGES, spec.classes), 1 / spec.classes, device=default_device()),
    }
    resources = {key: offered[key]() for key in objectives.resources_of(name)}
    return objectives.create(name, sigma=recipe.sigma, **fields_of(recipe.objective), **resources)


def _step(objective: Objective, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    """The seconds of a step late in training, when all terms are at work."""
    step = Step(10_000, generator(default_device(), "time", len(batch.images)))
    began = time.perf_counter()
    optimizer.zero_grad()
    _loss(objective, model, batch, step).backward()
    optimizer.step()
    return time.perf_counter() - began


def _loss(objective: Objective, model: nn.Module, batch: Batch, step: Step) -> Tensor:
    return torch.stack([term.mean() for term in objective.terms(model, batch, step).values()]).sum()

"""Everything a run needs, made and checked before the first step of work."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from radii import datasets, models, objectives, plugins
from radii.datasets import Dataset
from radii.engine import inference
from radii.experiment import files
from radii.experiment.recipe import Recipe, RecipeError, Training
from radii.experiment.run import Run, RunError
from radii.fields import settings_of
from radii.objectives import Objective
from radii.smoothing.classifier import SmoothedClassifier
from radii.smoothing.normalisation import NONE, Normalisation

CALIBRATION_BLOCKS = 8


class Frame(NamedTuple):
    """What a model takes and gives: stored beside its weights."""

    shape: tuple[int, int, int]
    classes: int
    normalisation: Normalisation


@dataclass(frozen=True)
class Parts:
    """A recipe come alive."""

    recipe: Recipe
    """Resolved: every field of the objective stated."""
    training: Training
    dataset: Dataset
    model: nn.Module
    objective: Objective
    origin: Mapping[str, Any]
    """What the resources were: for the record."""


def build(
    recipe: Recipe,
    data: Path | None = None,
    teacher: Run | Path | str | None = None,
    soft_labels: Path | str | None = None,
) -> Parts:
    """Make the parts of a recipe, or fail before any work is done."""
    if recipe.training is None:
        raise RecipeError("this recipe has no [training]: it belongs to a model that was trained elsewhere")
    dataset = datasets.create(recipe.dataset, data)
    resources: dict[str, Any] = {}
    origin: dict[str, Any] = {}
    if teacher is not None:
        resources["teacher"], origin["teacher"] = _teacher(recipe, dataset, teacher)
    if soft_labels is not None:
        resources["soft_labels"], origin["soft_labels"] = _soft_labels(dataset, Path(soft_labels))
    fields = dict(recipe.objective)
    name = fields.pop("name")
    wanted = plugins.find("objectives", name, Objective).resources()
    if extra := sorted(set(resources) - set(wanted)):
        raise ValueError(f"objective {name!r} takes no {extra[0]}: leave it out, or use another recipe")
    objective = objectives.create(name, sigma=recipe.sigma, **fields, **resources)
    resolved = replace(recipe, objective=_resolved(recipe, objective))
    return Parts(resolved, recipe.training, dataset, make_model(recipe, dataset), objective, origin)


def _teacher(recipe: Recipe, dataset: Dataset, named: Run | Path | str) -> tuple[nn.Module, dict[str, str]]:
    run = named if isinstance(named, Run) else Run(named)
    theirs, frame = run.recipe, frame_of(run)
    pairs = {
        "dataset": (theirs.dataset, recipe.dataset),
        "sigma": (theirs.sigma, recipe.sigma),
        "number of classes": (frame.classes, dataset.classes),
        "image size": (frame.shape, dataset.shape),
    }
    for what, (got, wanted) in pairs.items():
        if got != wanted:
            raise RunError(f"the teacher {run.path} has another {what}: {got}, the student has {wanted}")
    return inference.folded(trained_model(run)), {"path": str(run.path.resolve()), "hash": digest(run.weights())}


def _soft_labels(dataset: Dataset, path: Path) -> tuple[Tensor, dict[str, str]]:
    try:
        table = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read soft labels from {path}: {error}; `radii soft-labels RUN` makes them") from error
    wanted = (len(dataset.split("train")), dataset.classes)
    if table.shape != wanted:
        raise ValueError(f"{path} holds soft labels of shape {table.shape}, the training split needs {wanted}")
    return torch.from_numpy(table), {"path": str(path.resolve()), "hash": digest(path)}


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_model(recipe: Recipe, dataset: Dataset) -> nn.Sequential:
    """The untrained model of a recipe: its weights depend on the recipe's seed alone."""
    return _model(recipe, Frame(dataset.shape, dataset.classes, normalisation(recipe, dataset)))


def normalisation(recipe: Recipe, dataset: Dataset) -> Normalisation:
    """The constants of the model's first layer."""
    constants = dataset.normalisation
    if recipe.normalisation == "none" or not constants.mean:
        return NONE
    if recipe.normalisation == "centre":
        return Normalisation(constants.mean, tuple(1.0 for _ in constants.mean))
    return constants


def _model(recipe: Recipe, frame: Frame) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = models.create(recipe.model, shape=frame.shape, classes=frame.classes, normalisation=frame.normalisation)
    return inference.channels_last(model)


def save_weights(run: Run, model: nn.Module, dataset: Dataset) -> None:
    """Write the weights with what a user of them must know, so that a deployed model needs no dataset."""
    frame = Frame(dataset.shape, dataset.classes, normalisation(run.recipe, dataset))
    state = {name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}
    files.write(run.weights_file, to_safetensors(state, {"frame": json.dumps(frame)}))


def frame_of(run: Run) -> Frame:
    """What the images of a trained run look like and how many classes they have."""
    with safe_open(run.weights(), "pt") as weights:
        shape, classes, constants = json.loads(weights.metadata()["frame"])
    return Frame(tuple(shape), classes, Normalisation(*map(tuple, constants)))


def trained_model(run: Run) -> nn.Module:
    """The model of a finished run with its weights, in eval mode."""
    weights = run.weights()
    try:
        model = _model(run.recipe, frame_of(run))
        model.load_state_dict(load_file(weights))
    except (SafetensorError, RuntimeError, KeyError, TypeError) as error:
        raise RunError(f"{weights} does not hold the weights of {run.recipe.model}: {error}") from error
    return model.eval().to(device())


def load(
    run: Run | Path | str, *, engine: str = "auto", data: Path | None = None, batch_size: int = 128
) -> SmoothedClassifier:
    """The smoothed classifier of a finished run; `data` is needed only by an engine that calibrates."""
    run = run if isinstance(run, Run) else Run(run)
    return open_run(run, engine, data, batch_size)[1]


def open_run(run: Run, engine: str, data: Path | None, batch_size: int) -> tuple[str, SmoothedClassifier]:
    """The engine that was chosen for a finished run, and the smoothed classifier that it carries."""
    recipe, frame = run.recipe, frame_of(run)

    def pictures() -> Tensor:
        images = datasets.create(recipe.dataset, data).split("train")
        return images.batch(torch.arange(min(len(images), CALIBRATION_BLOCKS * batch_size)))

    job = inference.Job(
        inference.folded(trained_model(run)),
        frame.shape,
        recipe.sigma,
        batch_size,
        run.path / "int8",
        pictures,
    )
    name, fast = inference.prepare(job, engine)
    return name, SmoothedClassifier(fast, sigma=recipe.sigma, classes=frame.classes, batch_size=batch_size)


def read_picture(path: Path, shape: tuple[int, int, int]) -> Tensor:
    """A picture file as pixels in [0, 1] of a model's channels; its size must be the model's."""
    channels, height, width = shape
    try:
        picture = Image.open(path).convert("L" if channels == 1 else "RGB")
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path} as a picture: {error}") from error
    if picture.size != (width, height):
        got = f"{picture.width} x {picture.height}"
        raise ValueError(f"{path} is {got} pixels, the model takes {width} x {height}: resize or crop it first")
    pixels = torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)
    return pixels.reshape(height, width, channels).permute(2, 0, 1)


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _resolved(recipe: Recipe, objective: Objective) -> dict[str, Any]:
    stated = {f.name: getattr(objective, f.name) for f in settings_of(type(objective)) if f.name != "sigma"}
    return {"name": recipe.objective["name"], **stated}

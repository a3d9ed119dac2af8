"""Weights on disk, with the spec of their model: image shape, class names and normalisation."""

import json
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from radii import models
from radii.datasets import Dataset
from radii.engines import channels_last
from radii.experiment import files
from radii.experiment.recipe import Recipe, fields_of
from radii.experiment.run import Run, RunError
from radii.loops.device import default_device
from radii.smoothing.normalisation import NONE, Normalisation


class ModelSpec(NamedTuple):
    """The inputs and outputs of a model: stored with its weights, so that a deployed model needs no dataset."""

    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    normalisation: Normalisation

    @property
    def classes(self) -> int:
        return len(self.class_names)


def spec_for(recipe: Recipe, dataset: Dataset) -> ModelSpec:
    """The inputs and outputs of a recipe's model."""
    return ModelSpec(dataset.shape, dataset.class_names, normalisation(recipe, dataset))


def normalisation(recipe: Recipe, dataset: Dataset) -> Normalisation:
    """The constants of the model's first layer."""
    constants = dataset.normalisation
    if recipe.normalisation == "none" or not constants.mean:
        return NONE
    if recipe.normalisation == "centre":
        return Normalisation(constants.mean, tuple(1.0 for _ in constants.mean))
    return constants


def make_model(recipe: Recipe, spec: ModelSpec) -> nn.Sequential:
    """The untrained model of a recipe: its weights depend only on the recipe's seed."""
    fields = fields_of(recipe.model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = models.create(
            recipe.model["name"],
            shape=spec.shape,
            classes=spec.classes,
            normalisation=spec.normalisation,
            **fields,
        )
    return channels_last(model)


def save_weights(run: Run, model: nn.Module, spec: ModelSpec) -> None:
    """Write the weights with their spec."""
    state = {name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}
    files.write(run.weights_file, to_safetensors(state, {"spec": json.dumps(spec._asdict())}))


def model_spec(run: Run) -> ModelSpec:
    """The inputs and outputs of a trained run's model."""
    weights = run.weights()
    try:
        with safe_open(weights, "pt") as file:
            found = file.metadata()
        if "spec" not in found:  # version 0.1 kept no class names
            shape, classes, constants = json.loads(found["frame"])
            return ModelSpec(tuple(shape), tuple(map(str, range(classes))), Normalisation(*map(tuple, constants)))
        spec = json.loads(found["spec"])
        constants = Normalisation(*map(tuple, spec["normalisation"]))
        return ModelSpec(tuple(spec["shape"]), tuple(spec["class_names"]), constants)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{weights} does not say what images its model takes: {error}") from error


def trained_model(run: Run) -> nn.Module:
    """The model of a finished run with its weights, in eval mode."""
    recipe = run.recipe
    model = make_model(recipe, model_spec(run))
    load_weights(model, run.weights(), recipe.model["name"])
    return model.eval().to(default_device())


def load_weights(model: nn.Module, weights: Path, name: str) -> None:
    """Load a model's weights from a safetensors file; raise a RunError if they belong to another model."""
    try:
        model.load_state_dict(read_tensors(weights))
    except (SafetensorError, RuntimeError, KeyError, TypeError) as error:
        raise RunError(f"{weights} does not hold the weights of {name}: {error}") from error


def read_tensors(weights: Path) -> dict[str, Tensor]:
    return load_file(weights)

"""Write and read weights as safetensors, with the spec of their model: image shape, class names, normalisation."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from radii import disk, models
from radii.datasets import Dataset
from radii.device import default_device
from radii.onnx_graph import has_graph
from radii.runs import readers
from radii.runs.recipe import Recipe, fields_of
from radii.runs.run import Run, RunError
from radii.smoothing.forward import channels_last
from radii.smoothing.normalisation import NONE, Normalisation

MOST_SIDE, MOST_CHANNELS, MOST_CLASSES = 4096, 16, 100_000
"""Limits of a spec that is read from a file, because it decides how much memory the model takes."""


class ModelSpec(NamedTuple):
    """The inputs and outputs of a model, stored with the weights so that a deployed model needs no dataset."""

    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    normalisation: Normalisation

    @property
    def classes(self) -> int:
        return len(self.class_names)


def spec_for(recipe: Recipe, dataset: Dataset) -> ModelSpec:
    """Return the inputs and outputs of a recipe's model."""
    return ModelSpec(dataset.shape, dataset.class_names, normalisation(recipe, dataset))


def normalisation(recipe: Recipe, dataset: Dataset) -> Normalisation:
    """Return the constants of the model's first layer: the dataset's, or those of a library's model."""
    constants = dataset.normalisation
    if recipe.normalisation != "none":
        own = models.own_normalisation(recipe.model["name"], fields_of(recipe.model))
        constants = own if len(own.mean) == dataset.shape[0] else constants
    if recipe.normalisation == "none" or not constants.mean:
        return NONE
    if recipe.normalisation == "centre":
        return Normalisation(constants.mean, tuple(1.0 for _ in constants.mean))
    return constants


def make_model(recipe: Recipe, spec: ModelSpec, *, pretrained: bool = True) -> nn.Sequential:
    """Create the model of a recipe as training starts with it; its weights depend only on the recipe's seed.

    Without `pretrained`, no weights are fetched from the model's library; the caller loads others.
    """
    name, fields = recipe.model["name"], fields_of(recipe.model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = models.create(
            name,
            shape=spec.shape,
            classes=spec.classes,
            normalisation=spec.normalisation,
            **(fields if pretrained else models.without_pretrained(name, fields)),
        )
    return channels_last(model)


def save_weights(run: Run, model: nn.Module, spec: ModelSpec) -> None:
    """Write the weights of a run with their spec."""
    disk.write(run.weights_file, serialised(model, spec))


def serialised(model: nn.Module, spec: ModelSpec) -> bytes:
    """Return the weights with their spec as the content of a safetensors file."""
    # Clones, because safetensors refuses tensors that share memory, such as tied weights.
    state = {name: tensor.cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    return to_safetensors(state, {"spec": json.dumps(spec._asdict())})


def model_spec(run: Run) -> ModelSpec:
    """Read the inputs and outputs of a trained run's model."""
    weights = run.weights()
    try:
        stored = readers.weights_metadata(weights)
        if "spec" in stored:
            spec = readers.parse_object(stored["spec"], f"the spec in {weights}")
            shape, class_names, constants = spec["shape"], tuple(spec["class_names"]), spec["normalisation"]
        else:  # version 0.1 wrote a "frame" with the number of classes
            frame = readers.parse_object(f'{{"frame": {stored["frame"]}}}', f"the frame in {weights}")["frame"]
            shape, classes, constants = frame
            class_names = tuple(map(str, range(min(classes, MOST_CLASSES + 1))))
        return _checked(ModelSpec(tuple(shape), class_names, Normalisation(*map(tuple, constants))))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(f"{weights} does not say what images its model takes: {_one_line(error)}") from error


def _checked(spec: ModelSpec) -> ModelSpec:
    """Return the spec, or raise a ValueError if it is invalid."""
    sides = [side for side in spec.shape if isinstance(side, int) and 1 <= side <= MOST_SIDE]
    if len(sides) != 3 or len(spec.shape) != 3 or spec.shape[0] > MOST_CHANNELS:
        raise ValueError(f"shape {str(spec.shape)[:80]}, expected channels, height and width")
    if not 2 <= spec.classes <= MOST_CLASSES or not all(isinstance(name, str) for name in spec.class_names):
        raise ValueError(f"{spec.classes:,} class names, expected 2 to {MOST_CLASSES:,} texts")
    mean, std = spec.normalisation
    numbers = [value for value in (*mean, *std) if isinstance(value, int | float) and math.isfinite(value)]
    if len(mean) not in (0, spec.shape[0]) or len(std) != len(mean) or len(numbers) != 2 * len(mean) or 0 in std:
        raise ValueError(f"normalisation {str(tuple(spec.normalisation))[:80]}, expected a mean and std a channel")
    return spec


def device_for(run: Run, device: torch.device | None = None) -> torch.device:
    """Return where a run's model is used: on a device or on the default one, an ONNX graph on the CPU."""
    return torch.device("cpu") if "onnx" in run.recipe.names() else device or default_device()


def trained_model(run: Run, device: torch.device | None = None) -> nn.Module:
    """Load the model of a finished run in eval mode, on a device or on the default one; an ONNX model on the CPU."""
    recipe = run.recipe
    spec = model_spec(run)
    try:
        model = make_model(recipe, spec, pretrained=False)
    except (RuntimeError, MemoryError, OverflowError) as error:
        raise RunError(f"{run.recipe_file}: its model cannot be created: {_one_line(error)}") from error
    load_weights(model, run.weights(), recipe.model["name"])
    return model.eval().to("cpu" if has_graph(model) else device or default_device())


def load_weights(model: nn.Module, weights: Path, name: str) -> None:
    """Load a model's weights from a safetensors file; raise a RunError if they belong to another model."""
    try:
        tensors = load_file(weights)
        expect_plain(tensors, model.state_dict())
        model.load_state_dict(tensors)
    except Exception as error:
        # safetensors raises its own errors, and torch raises several.
        raise RunError(f"{weights} does not hold the weights of {name}: {_one_line(error)}") from error


def expect_plain(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise a ValueError for a tensor that is not dense or has another type than expected."""
    for key, tensor in tensors.items():
        like = expected.get(key, tensor)
        if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
            raise ValueError(f"{key} is not a dense tensor")
        if tensor.is_floating_point() != like.is_floating_point() or tensor.is_complex() != like.is_complex():
            raise ValueError(f"{key} holds {tensor.dtype}, expected {like.dtype}")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 400 else f"{text[:396]} ..."

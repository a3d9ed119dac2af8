"""Import the classifier that a factory `module:name` makes, any nn.Module, as a run."""

from pathlib import Path
from typing import Any

from torch import nn

from radii.errors import ParameterError
from radii.interop.checkpoint import PREFIXES, load_tensors, read_checkpoint
from radii.interop.importer import Inputs, check_classifier, write_run
from radii.runs.recipe import Recipe, Spec, named_table
from radii.runs.run import Run
from radii.training.build import open_dataset
from radii.training.weights import ModelSpec, make_model


def import_model(model: Spec, path: Path, *, sigma: float, weights: Path | None = None, **inputs: Any) -> Run:
    """Make a run from the classifier that a factory `module:name` makes.

    The factory is called with its fields, and with shape and classes where it has such parameters. `weights` is a file
    that torch or safetensors wrote; without one the weights are those that the factory gives the model. `inputs` are
    the fields of `Inputs`.
    """
    options = Inputs(**inputs)
    recipe = options.recipe(named_table(model, "model"), sigma, {})
    name, dataset = recipe.model["name"], open_dataset(recipe, options.data)
    spec = options.spec(recipe, dataset)
    classifier = _make(recipe, spec)
    if weights is not None:
        _load_weights(classifier[1], weights, name)
    classifier.eval()
    try:
        check_classifier(classifier, spec, name)
    except (RuntimeError, TypeError, IndexError) as error:
        size = " x ".join(map(str, spec.shape))
        raise ParameterError(_failure(f"{name} cannot classify images of {size}", error), "size") from error
    return write_run(path, recipe, dataset, classifier, spec, weights)


def _make(recipe: Recipe, spec: ModelSpec) -> nn.Sequential:
    try:
        return make_model(recipe, spec)
    except (ValueError, LookupError, OSError):
        raise
    except Exception as error:  # the factory is the user's: any error may come out of it
        raise ParameterError(_failure(f"{recipe.model['name']} cannot make its model", error)) from error


def _load_weights(model: nn.Module, weights: Path, name: str) -> None:
    """Load all tensors of a file; refuse a file with a tensor that the model does not have."""
    tensors = read_checkpoint(weights)
    load_tensors(model, tensors, weights, name)
    state = model.state_dict()
    for key in tensors:
        if not any(key.removeprefix(prefix) in state for prefix in PREFIXES):
            raise ParameterError(f"{weights} holds {key}, which {name} does not have: it is of another model")


def _failure(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"

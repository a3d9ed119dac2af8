"""A classifier that a factory makes, any nn.Module, as a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from radii.errors import ParameterError
from radii.interop.imported import Inputs, expect_classifier, write_run
from radii.interop.tensor_files import PREFIXES, fill, tensors_in
from radii.runs.recipe import Recipe, Spec, named_table
from radii.runs.run import Run
from radii.training.components import open_dataset
from radii.training.weights import ModelSpec, make_model


def import_model(model: Spec, path: Path, *, sigma: float, weights: Path | None = None, **inputs: Any) -> Run:
    """Make a run from the classifier that a factory `module:name` makes.

    The factory is called with its fields, and with shape and classes where it has such parameters. `weights` is a file
    that torch or safetensors wrote; without one the weights are those that the factory gives the model. `inputs` are
    the fields of `Inputs`.
    """
    taken = Inputs(**inputs)
    recipe = taken.recipe(named_table(model, "model"), sigma, {})
    name, opened = recipe.model["name"], open_dataset(recipe, taken.data)
    spec = taken.spec(recipe, opened)
    made = _made(recipe, spec)
    if weights is not None:
        _fill(made[1], weights, name)
    made.eval()
    _expect_answers(made, spec, name)
    return write_run(path, recipe, opened, made, spec, weights)


def _made(recipe: Recipe, spec: ModelSpec) -> nn.Sequential:
    try:
        return make_model(recipe, spec)
    except (ValueError, LookupError, OSError):
        raise
    except Exception as error:  # the factory is the user's: any error may come out of it
        raise ParameterError(_failed(f"{recipe.model['name']} cannot make its model", error)) from error


def _fill(model: nn.Module, weights: Path, name: str) -> None:
    """Load all tensors of a file; one that has no place in the model is an error."""
    found = tensors_in(weights)
    fill(model, found, weights, name)
    if unknown := [key for key in found if not _is_of(key, model.state_dict())]:
        raise ParameterError(f"{weights} holds {unknown[0]}, which {name} does not have: it is of another model")


def _is_of(key: str, state: Mapping[str, Tensor]) -> bool:
    return any(key.removeprefix(prefix) in state for prefix in PREFIXES)


def _expect_answers(model: nn.Module, spec: ModelSpec, name: str) -> None:
    try:
        expect_classifier(model, spec, name)
    except (RuntimeError, TypeError, IndexError) as error:
        images = " x ".join(map(str, spec.shape))
        raise ParameterError(_failed(f"{name} cannot classify images of {images}", error), "size") from error


def _failed(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"

"""Import any nn.Module that classifies images as a run: the model that a factory `module:name` returns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from radii import models
from radii.errors import ParameterError
from radii.interop.checkpoint import PREFIXES, load_tensors, read_checkpoint
from radii.interop.importer import Inputs, check_classifier, write_run
from radii.plugins import library_of
from radii.runs.recipe import Recipe, Spec, fields_of, named_table
from radii.runs.run import Run
from radii.training.open_dataset import open_dataset
from radii.training.weights import ModelSpec, make_model


def import_model(
    model: Spec, path: Path | str, *, sigma: float, weights: Path | str | None = None, **inputs: Any
) -> Run:
    """Make a run from the model that a factory `module:name` returns, or from a library's, such as `timm:resnet18`.

    A table states the factory's fields: `{"name": "nets:small", "width": 32}`. The factory is called with these, and
    with shape and classes (or num_classes) if it has such parameters. `weights` is a file that torch or safetensors
    wrote; without it the model keeps the weights that the factory gives it. `inputs` are about the images: `dataset`,
    a name or a table, by default the folders by class in `data`; `size`, the side of an image; `mean` and `std`, or
    `normalisation`, which is "inside", "full" or "centre". A library's model has the normalisation that the library
    states.

    >>> import radii, tempfile
    >>> run = radii.import_model("digits_mlp", f"{tempfile.mkdtemp()}/mine", sigma=0.25, dataset="digits")
    >>> radii.load(run, engine="torch")
    SmoothedClassifier(..., noise=Gaussian(sigma=0.25), classes=10, engine='torch')
    """
    path, weights = Path(path), None if weights is None else Path(weights)
    if isinstance(inputs.get("data"), str):
        inputs["data"] = Path(inputs["data"])
    table = named_table(model, "model")
    options = Inputs(**_default_normalisation(table, inputs), **inputs)
    fields = fields_of(table)
    if library_of(table["name"]):  # the fields that make the model again later without a network
        fields = models.resolved(table["name"], fields)
    recipe = options.recipe({"name": table["name"], **fields}, sigma, {})
    name, dataset = recipe.model["name"], open_dataset(recipe, options.data)
    spec = options.spec(recipe, dataset)
    classifier = _make(recipe, spec)
    if weights is not None:
        _load_weights(classifier[1], weights, name)
    classifier.eval()
    try:
        check_classifier(classifier, spec, name)
    except (RuntimeError, TypeError, IndexError, AssertionError) as error:
        size = " x ".join(map(str, spec.shape))
        message = _failure(f"{name} cannot classify the {size} images of {recipe.dataset['name']}", error)
        # Other datasets have images of one size only.
        raise ParameterError(message, "size" if recipe.dataset["name"] == "folder" else "") from error
    return write_run(path, recipe, dataset, classifier, spec, weights)


def _default_normalisation(model: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the normalisation if the caller states none: a library's model has the library's constants."""
    dataset = inputs.get("dataset")
    stated = {*inputs, *(dataset if isinstance(dataset, Mapping) else ())} & {"mean", "std", "normalisation"}
    return {} if stated or not library_of(model["name"]) else {"normalisation": "full"}


def _make(recipe: Recipe, spec: ModelSpec) -> nn.Sequential:
    name = recipe.model["name"]
    try:
        return make_model(recipe, spec)
    except Exception as error:  # the user's factory may raise anything
        if isinstance(error, ParameterError) or type(error) is LookupError or name in str(error):
            raise
        raise ParameterError(_failure(f"{name} cannot make its model", error)) from error


def _load_weights(model: nn.Module, weights: Path, name: str) -> None:
    """Load all tensors of a file; refuse a file with a tensor that the model does not have."""
    tensors = read_checkpoint(weights)
    load_tensors(model, tensors, weights, name)
    state = model.state_dict()
    for key in tensors:
        if not any(key.removeprefix(prefix) in state for prefix in PREFIXES):
            raise ParameterError(f"{weights} holds {key}, which {name} does not have: it belongs to another model")


def _failure(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"

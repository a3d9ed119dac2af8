"""What all imports share: the options about the images, the check of the classifier, and the writing of its run."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii import disk
from radii.datasets import Dataset
from radii.errors import ParameterError
from radii.onnx_graph import description_file
from radii.provenance import environment
from radii.runs import readers
from radii.runs.recipe import Recipe, Spec, named_table, warn_of_sigma
from radii.runs.run import Run, RunError
from radii.smoothing.normalisation import Normalisation
from radii.training.accuracy import measure
from radii.training.build import stored
from radii.training.initial_weights import source
from radii.training.open_dataset import check_classes, dataset_fields
from radii.training.weights import ModelSpec, normalisation, serialised

PROBES = 3
"""Images on which an imported classifier is checked."""
TOLERANCE = 1e-3
"""How far an image's logits may depend on its batch, as a share of the largest logit."""
INSIDE = "inside"
"""The normalisation of a classifier that takes pixels in [0, 1] and does the rest itself."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The images that an imported classifier takes, and how it expects their pixels.

    `normalisation` is `inside` for a classifier that takes pixels in [0, 1], `full` or `centre` for one that expects
    pixels normalised by the dataset's constants; `mean` and `std` state other constants.
    """

    dataset: Spec = "folder"
    size: int | None = None
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    normalisation: str | None = None
    data: Path | None = None

    def table(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the dataset's table with these options; `defaults` are fields for a folder of images."""
        table = named_table(self.dataset, "dataset")
        if table["name"] == "folder":
            constants = {} if self.normalisation else self._constants(table)._asdict()
            table = {**defaults, **table, **{key: value for key, value in constants.items() if value}}
        return dict(table) if self.size is None else {**table, "size": self.size}

    def recipe(self, model: Spec, sigma: float, defaults: Mapping[str, Any]) -> Recipe:
        """Return the recipe of the imported run."""
        mean = self._constants(named_table(self.dataset, "dataset")).mean
        if mean and self.normalisation:
            raise ParameterError(f"mean and std are stated, and normalisation = {self.normalisation!r}: leave one out")
        choice = "full" if mean else (self.normalisation or INSIDE)
        return Recipe(
            dataset=self.table(defaults),
            model=model,
            sigma=sigma,
            normalisation="none" if choice == INSIDE else choice,
            objective="imported",
        )

    def spec(self, recipe: Recipe, dataset: Dataset) -> ModelSpec:
        """Return the inputs and outputs of the imported model."""
        constants = normalisation(recipe, dataset)
        if recipe.normalisation == "full" and not self.normalisation:
            stated = self._constants(recipe.dataset)
            constants = stated if stated.mean else constants
        if len(constants.mean) not in (0, dataset.shape[0]):
            raise _wrong_constants(constants, f"{dataset.shape[0]}, one per channel")
        return ModelSpec(dataset.shape, dataset.class_names, constants)

    def _constants(self, table: Mapping[str, Any]) -> Normalisation:
        """Return the mean and std of the options, or those of the dataset's table."""
        constants = Normalisation(tuple(self.mean or table.get("mean", ())), tuple(self.std or table.get("std", ())))
        if len(constants.mean) != len(constants.std) or any(deviation <= 0 for deviation in constants.std):
            raise _wrong_constants(constants, "one each per channel, std > 0")
        return constants


def _wrong_constants(constants: Normalisation, expected: str) -> ParameterError:
    return ParameterError(f"mean = {list(constants.mean)}, std = {list(constants.std)}, expected {expected}", "mean")


def check_classifier(model: nn.Module, spec: ModelSpec, name: str) -> None:
    """Raise a ParameterError unless the model classifies images of its dataset, each independently of the others."""
    images = torch.rand(PROBES, *spec.shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        together, alone = model(images), [model(image[None]) for image in images]
    if not isinstance(together, Tensor) or together.shape != (PROBES, spec.classes):
        output = list(together.shape) if isinstance(together, Tensor) else f"a {type(together).__name__}"
        raise ParameterError(
            f"{name} answers {output} for {PROBES} images, expected [{PROBES}, {spec.classes}]: "
            f"the dataset has {spec.classes} classes"
        )
    if not torch.allclose(together, torch.cat(alone), rtol=0, atol=TOLERANCE * float(together.abs().max())):
        raise ParameterError(f"{name} classifies an image depending on the others in its batch: use it in eval mode")


def write_run(
    path: Path,
    recipe: Recipe,
    dataset: Dataset,
    model: nn.Module,
    spec: ModelSpec,
    file: Path | None,
    origin: Mapping[str, Mapping[str, str]] | None = None,
) -> Run:
    """Write a run with the model's weights, and how many test images it classifies correctly without noise.

    `file` is the file of the weights, if there is one; `origin` names other sources, with their hashes.
    """
    run = Run(path)
    warn_of_sigma(recipe.sigma)
    if file is not None:
        check_classes(recorded_classes(file), dataset, str(file))
    recipe = replace(recipe, dataset={"name": recipe.dataset["name"], **dataset_fields(dataset)})
    origin = {**(origin or {}), **({"checkpoint": source(file, file)} if file else {})}
    weights = serialised(model, spec)
    check = measure(model, dataset, hashlib.sha256(weights).hexdigest())
    with run.writing():
        run.claim(stored(recipe, run), origin)
        if run.finished and run.weights_file.read_bytes() != weights:
            raise RunError(f"{run.path} holds other weights", "run")
        disk.write_json(run.environment_file, environment())
        if check is not None:
            disk.write_json(run.check_file, check)
        disk.write(run.weights_file, weights)
    return run


def recorded_classes(file: Path) -> tuple[str, ...]:
    """Return the class names that radii stored in a safetensors file or beside an export; empty if it stored none."""
    if file.suffix == ".safetensors":
        return readers.class_names(file)
    description = description_file(file)
    if file.suffix != ".onnx" or not description.is_file():
        return ()
    table = readers.json_object(description)
    names = table.get("classes")
    if table.get("sha256") != disk.digest(file) or not isinstance(names, list):
        return ()  # the description of another file
    return tuple(map(str, names))

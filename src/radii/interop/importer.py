"""What all imports share: the options about the images, the check of the classifier, and writing its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii import disk
from radii.datasets import DataError, Dataset, spread_evenly
from radii.errors import ParameterError
from radii.provenance import environment
from radii.runs.recipe import Recipe, Spec, named_table
from radii.runs.run import Run, RunError
from radii.smoothing.normalisation import Normalisation
from radii.training.build import dataset_fields, stored
from radii.training.weights import ModelSpec, normalisation, serialised

MOST_CHECKED = 200
"""Test images that an imported classifier is checked on without noise."""
BATCH = 20
PROBES = 3
TOLERANCE = 1e-3
"""How far an image's logits may depend on its batch, as a share of the largest logit."""
INSIDE = "inside"
"""The normalisation of a classifier that takes pixels in [0, 1] and does the rest itself."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The images that an imported classifier takes, and how it expects their pixels.

    `normalisation` is `inside` for a classifier that takes pixels in [0, 1], `full` or `centre` for one that expects
    the dataset's constants; `mean` and `std` state others.
    """

    dataset: Spec = "folder"
    size: int | None = None
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    normalisation: str | None = None
    data: Path | None = None

    def table(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the dataset's table with these options; `defaults` are fields of a folder that states none itself."""
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
        """The mean and std of the options, or else of the dataset's table."""
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
        answer = list(together.shape) if isinstance(together, Tensor) else f"a {type(together).__name__}"
        got = f"{name} answers {answer} for {PROBES} images"
        raise ParameterError(f"{got}, expected [{PROBES}, {spec.classes}]: the dataset has {spec.classes} classes")
    if not torch.allclose(together, torch.cat(alone), rtol=0, atol=TOLERANCE * float(together.abs().max())):
        raise ParameterError(f"{name} classifies an image depending on the others in its batch: use it in eval mode")


def write_run(
    path: Path, recipe: Recipe, dataset: Dataset, model: nn.Module, spec: ModelSpec, file: Path | None
) -> Run:
    """Write a run with the model's weights, and how many test images it classifies correctly without noise.

    `file` is where the weights come from.
    """
    run = Run(path)
    recipe = replace(recipe, dataset={"name": recipe.dataset["name"], **dataset_fields(dataset)})
    origin = {"checkpoint": {"path": str(file.resolve()), "hash": disk.digest(file)}} if file else {}
    weights, check = serialised(model, spec), _check_accuracy(model, dataset)
    with run.writing():
        run.claim(stored(recipe, run), origin)
        if run.finished and run.weights_file.read_bytes() != weights:
            raise RunError(f"{run.path} holds other weights", "run")
        disk.write_json(run.environment_file, environment())
        if check is not None:
            disk.write_json(run.check_file, check)
        disk.write(run.weights_file, weights)
    return run


def _check_accuracy(model: nn.Module, dataset: Dataset) -> dict[str, int] | None:
    """Count the correct answers on test images spread over the split; None where there are none to read."""
    try:
        images = dataset.split("test")
    except DataError as error:
        if error.parameter == "enlarge":  # the size, which the user can correct now
            raise
        return None
    chosen = torch.tensor(spread_evenly(range(len(images)), MOST_CHECKED))
    with torch.inference_mode():
        hits = [model(images.batch(part)).argmax(1) == images.labels[part] for part in chosen.split(BATCH)]
    return {"right": int(torch.cat(hits).sum()), "images": len(chosen)}

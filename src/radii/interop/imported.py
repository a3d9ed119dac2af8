"""The run directory of a classifier that was trained elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from radii import disk
from radii.datasets import DataError, Dataset, Images
from radii.errors import ParameterError
from radii.provenance import environment
from radii.runs.recipe import Recipe, Spec, named_table
from radii.runs.run import Run, RunError
from radii.smoothing.normalisation import Normalisation
from radii.training.components import dataset_fields, stored
from radii.training.weights import ModelSpec, normalisation, serialised

MOST_CHECKED = 200
"""Test images that an imported classifier is asked about without noise."""
BATCH = 20
PROBES = 3
CLOSE = 1e-3
"""How far an image's logits may depend on its batch, as a share of the largest logit."""
INSIDE = "inside"
"""The normalisation of a classifier that takes pixels in [0, 1] and does the rest itself."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The images that an imported classifier takes, and how it wants their pixels.

    `normalisation` is `inside` for a classifier that takes pixels in [0, 1], `full` or `centre` for one that wants
    the dataset's constants; `mean` and `std` state others.
    """

    dataset: Spec = "folder"
    size: int | None = None
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    normalisation: str | None = None
    data: Path | None = None

    def table(self, usual: Mapping[str, Any]) -> dict[str, Any]:
        """The dataset with what is stated; a folder, which has none of its own, takes the `usual` fields."""
        table = named_table(self.dataset, "dataset")
        if table["name"] == "folder":
            constants = {} if self.normalisation else self._constants(table)._asdict()
            table = {**usual, **table, **{key: value for key, value in constants.items() if value}}
        return dict(table) if self.size is None else {**table, "size": self.size}

    def recipe(self, model: Spec, sigma: float, usual: Mapping[str, Any]) -> Recipe:
        stated = self._constants(named_table(self.dataset, "dataset")).mean
        if stated and self.normalisation:
            raise ParameterError(f"mean and std are stated, and normalisation = {self.normalisation!r}: leave one out")
        how = "full" if stated else (self.normalisation or INSIDE)
        return Recipe(
            dataset=self.table(usual),
            model=model,
            sigma=sigma,
            normalisation="none" if how == INSIDE else how,
            objective="imported",
        )

    def spec(self, recipe: Recipe, dataset: Dataset) -> ModelSpec:
        stated = self._constants(recipe.dataset) if recipe.normalisation == "full" and not self.normalisation else None
        constants = stated if stated and stated.mean else normalisation(recipe, dataset)
        if len(constants.mean) not in (0, dataset.shape[0]):
            raise _wrong_constants(constants, f"{dataset.shape[0]}, one per channel")
        return ModelSpec(dataset.shape, dataset.class_names, constants)

    def _constants(self, table: Mapping[str, Any]) -> Normalisation:
        found = Normalisation(tuple(self.mean or table.get("mean", ())), tuple(self.std or table.get("std", ())))
        if len(found.mean) != len(found.std) or any(deviation <= 0 for deviation in found.std):
            raise _wrong_constants(found, "one each per channel, std > 0")
        return found


def _wrong_constants(found: Normalisation, expected: str) -> ParameterError:
    return ParameterError(f"mean = {list(found.mean)}, std = {list(found.std)}, expected {expected}", "mean")


def write_run(
    path: Path, recipe: Recipe, dataset: Dataset, model: nn.Module, spec: ModelSpec, file: Path | None
) -> Run:
    """Write a run with these weights, and how many test images they get right without noise.

    `file` is where the weights come from.
    """
    run = Run(path)
    recipe = replace(recipe, dataset={"name": recipe.dataset["name"], **dataset_fields(dataset)})
    origin = {"checkpoint": {"path": str(file.resolve()), "hash": disk.digest(file)}} if file else {}
    weights, checked = serialised(model, spec), _without_noise(model, dataset)
    with run.writing():
        run.claim(stored(recipe, run), origin)
        if run.finished and run.weights_file.read_bytes() != weights:
            raise RunError(f"{run.path} holds other weights", "run")
        disk.write_json(run.environment_file, environment())
        if checked is not None:
            disk.write_json(run.check_file, checked._asdict())
        disk.write(run.weights_file, weights)
    return run


class Checked(NamedTuple):
    """How many test images a classifier gets right without noise."""

    right: int
    images: int


def _without_noise(model: nn.Module, dataset: Dataset) -> Checked | None:
    """Ask about test images, evenly spread; None where there are none to read."""
    try:
        images = dataset.split("test")
    except DataError as error:
        if error.parameter == "enlarge":  # the size, which the user can correct now
            raise
        return None
    return count_right(model, images)


def count_right(model: nn.Module, images: Images) -> Checked:
    count = min(MOST_CHECKED, len(images))
    chosen = torch.arange(count) * len(images) // count
    with torch.inference_mode():
        hits = [model(images.batch(part)).argmax(1) == images.labels[part] for part in chosen.split(BATCH)]
    return Checked(int(torch.cat(hits).sum()), count)


def expect_classifier(model: nn.Module, spec: ModelSpec, name: str) -> None:
    """Raise a ParameterError unless the model classifies images of its dataset, each independently of the others."""
    images = torch.rand(PROBES, *spec.shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        together, alone = model(images), [model(image[None]) for image in images]
    if not isinstance(together, Tensor) or together.shape != (PROBES, spec.classes):
        answer = list(together.shape) if isinstance(together, Tensor) else f"a {type(together).__name__}"
        got = f"{name} answers {answer} for {PROBES} images"
        raise ParameterError(f"{got}, expected [{PROBES}, {spec.classes}]: the dataset has {spec.classes} classes")
    if not torch.allclose(together, torch.cat(alone), rtol=0, atol=CLOSE * float(together.abs().max())):
        raise ParameterError(f"{name} classifies an image depending on the others in its batch: use it in eval mode")

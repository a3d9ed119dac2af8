"""Open the images to certify: a part of the run's own data, or the test images of another dataset."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from radii import datasets
from radii.datasets import Dataset, Images
from radii.datasets.base import Part
from radii.runs import trust
from radii.runs.recipe import Spec, fields_of, named_table
from radii.runs.run import Run, RunError
from radii.training.open_dataset import check_classes, dataset_fields, dataset_of
from radii.training.weights import model_spec

EVALUATED_ON = "evaluated_on"
"""The field of a header that names another dataset than the run's own, with its fields."""
Key = tuple[tuple[str, Any], ...]
"""The hashable form of a dataset's table; empty for the run's own dataset."""


class EvaluatedImages(NamedTuple):
    """The images to certify, and what a header states about them besides their digest."""

    images: Images
    facts: Mapping[str, Any]
    dataset: str
    """The name of the dataset."""


def dataset_key(spec: Spec | Key | None) -> Key:
    """Return the hashable form of a dataset spec."""
    if not spec:
        return ()
    return tuple(named_table(dict(spec) if isinstance(spec, tuple) else spec, "dataset").items())


def evaluated_images(run: Run, part: Part, other: Key, data: Path | None) -> EvaluatedImages:
    """Open the images to certify; `data` is the folder of the run's own dataset, or of the other one."""
    if not other:
        own = dataset_of(run, data)
        held_out = {} if own.validation is None else {"validation": own.validation}
        facts: dict[str, Any] = {} if part == "test" else {"split": part, **held_out}
        return EvaluatedImages(own.part(part), facts, run.recipe.dataset["name"])
    if part != "test":
        raise ValueError(f"split = {part!r} selects a part of the run's own data: leave out the other dataset")
    dataset = open_other(other, data)
    _expect_same_images(run, dataset)
    fields = {key: value for key, value in dataset_fields(dataset).items() if key != "path"}
    facts = {"dataset": dataset.name, EVALUATED_ON: {"name": dataset.name, **fields}}
    return EvaluatedImages(dataset.part("test"), facts, dataset.name)


def named_in(run: Run, header: Mapping[str, Any]) -> tuple[Part, Key]:
    """Return the part and, if it is not the run's own, the dataset that the header of a certificate file names."""
    other = dataset_key(header.get(EVALUATED_ON))
    if other:
        trust.require([dict(other)["name"]], run.trusted, run.path)
        if "path" in dict(other):
            raise RunError(f"{run.path}: {EVALUATED_ON} in a header states a path, expected none: restore the file")
    return header.get("split", "test"), other


def open_other(other: Key, data: Path | None) -> Dataset:
    """Open another dataset than the run's own; `data` is its folder."""
    table = dict(other)
    fields = fields_of(table) | ({} if data is None else {"path": str(data)})
    return datasets.create(table["name"], **fields)


def _expect_same_images(run: Run, dataset: Dataset) -> None:
    """Raise a RunError if the images have another size or other classes."""
    spec = model_spec(run)
    if tuple(dataset.shape) != tuple(spec.shape):
        raise RunError(
            f"{run.path} takes images of shape {tuple(spec.shape)}, the dataset {dataset.name} has {dataset.shape}"
        )
    check_classes(run.class_names(), dataset, str(run.path))

"""Open the dataset of a recipe or of a run, and check that its classes are the model's."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from radii import datasets
from radii.datasets import Dataset
from radii.fields import settings_of
from radii.runs import readers, trust
from radii.runs.recipe import Recipe, fields_of
from radii.runs.run import Run, RunError


def open_dataset(recipe: Recipe, data: Path | None, base: Path | None = None) -> Dataset:
    """Open the dataset of a recipe; `data` overrides its path, and a path in the recipe is relative to `base`."""
    fields = fields_of(recipe.dataset)
    if data is not None:
        fields["path"] = str(data)
    elif base is not None and fields.get("path"):
        fields["path"] = os.path.normpath(base / fields["path"])
        if not Path(fields["path"]).exists() and os.environ.get("RADII_DATA"):
            del fields["path"]  # it has moved, to RADII_DATA
    return datasets.create(recipe.dataset["name"], **fields)


def dataset_of(run: Run, data: Path | None) -> Dataset:
    """Open the dataset that a run was trained on, at `data` or at the path in the run, if this user named it before."""
    table = run.recipe.dataset
    if data is not None:
        trust.record_data(data)
    elif table.get("path"):
        trust.require_data(run.path / table["path"], table["name"], run.path)
    dataset = open_dataset(run.recipe, data, run.path)
    check_classes(run.class_names(), dataset, str(run.path))
    return dataset


class OtherClassesError(RunError):
    """Images whose labels mean other classes than the model's."""


def check_classes(known: Sequence[str], dataset: Dataset, model: str) -> None:
    """Raise an OtherClassesError if a label of the dataset would mean another class than the model's.

    A dataset may lack the model's last classes, and may call its classes by their numbers. `known` is empty for a model
    that does not record its classes.
    """
    names = tuple(dataset.class_names)
    numbers = tuple(map(str, range(min(len(names), len(known)))))
    if not known or names in (tuple(known[: len(names)]), numbers):
        return
    lacking = [name for name in known if name not in names]
    unknown = [name for name in names if name not in known]
    differences = [f"it lacks {list_classes(lacking)}"] if lacking else []
    if unknown:
        differences.append(f"{list_classes(unknown)} {'is' if len(unknown) == 1 else 'are'} unknown to the model")
    where = f"the dataset {dataset.name!r}{f' at {dataset.data}' if dataset.data else ''}"
    raise OtherClassesError(
        f"{where} has other classes than {model}: "
        f"{' and '.join(differences) or f'their order is {list_classes(names)}'}. "
        f"Name and order them as in training: {list_classes(known)}"
    )


def moved_classes(known: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the classes that both lists have, in different places."""
    places = {name: number for number, name in enumerate(names)}
    return [name for number, name in enumerate(known) if places.get(name, number) != number]


def list_classes(names: Sequence[str]) -> str:
    """List class names for a message: the first five, and how many more there are."""
    shown = ", ".join(readers.short_repr(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def dataset_fields(dataset: Dataset) -> dict[str, Any]:
    """Return the fields of a dataset that have a value, its path among them."""
    fields = {setting.name: getattr(dataset, setting.name) for setting in settings_of(type(dataset))}
    if dataset.data is not None:
        fields["path"] = str(dataset.data)
    return {name: value for name, value in fields.items() if value is not None}

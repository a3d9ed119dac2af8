"""Datasets, one file each; the file's name is the dataset's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii import plugins
from radii.datasets._files import read_npy
from radii.datasets._folder_layout import pictures_in
from radii.datasets._image_files import Preparation, read_image
from radii.datasets._samples import Samples, as_image, samples_of
from radii.datasets.base import DataError, Dataset, Images, Shape, spread_evenly

__all__ = [
    "DataError",
    "Dataset",
    "Images",
    "Preparation",
    "Samples",
    "as_image",
    "create",
    "names",
    "pictures_in",
    "preparation",
    "read_image",
    "read_npy",
    "samples_of",
    "spread_evenly",
]


def names() -> list[str]:
    return plugins.names("datasets")


def create(name: str, data: Path | str | None = None, **fields: Any) -> Dataset:
    """Open a dataset by name; `data` is short for its field `path`, the folder or file that holds its files."""
    return plugins.create("datasets", Dataset, name, fields if data is None else {**fields, "path": str(data)})


def preparation(name: str, fields: Mapping[str, Any], shape: Shape, grey: bool = False) -> Preparation:
    """Return how an image file becomes a test image of a dataset; the dataset's files are not needed."""
    made_by = plugins.find("datasets", name, Dataset)
    kind = made_by if isinstance(made_by, type) and issubclass(made_by, Dataset) else Dataset
    return kind.preparation(shape, fields, grey)

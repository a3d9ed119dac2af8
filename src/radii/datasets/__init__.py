"""Datasets, one file each; the file's name is the dataset's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii import plugins
from radii.datasets._files import read_npy
from radii.datasets._folder_layout import pictures_in
from radii.datasets._image_files import Preparation, read_image
from radii.datasets._images import spread_evenly, spread_images
from radii.datasets._samples import Samples, as_image, class_names_of, samples_of
from radii.datasets.base import DataError, Dataset, Images, Shape

__all__ = [
    "DataError",
    "Dataset",
    "Images",
    "Preparation",
    "Samples",
    "as_image",
    "class_names_of",
    "create",
    "names",
    "pictures_in",
    "preparation",
    "read_image",
    "read_npy",
    "samples_of",
    "spread_evenly",
    "spread_images",
]


def names() -> list[str]:
    return plugins.names("datasets")


def create(name: str, data: Path | str | None = None, **fields: Any) -> Dataset:
    """Open a dataset by name; `data` is the value of its field `path`, the folder or file with the data."""
    return plugins.create("datasets", Dataset, name, fields if data is None else {**fields, "path": str(data)})


def preparation(name: str, fields: Mapping[str, Any], shape: Shape, grey: bool = False) -> Preparation:
    """Return how an image file becomes a test image of a dataset; the dataset's files are not needed."""
    factory = plugins.find("datasets", name, Dataset)
    dataset = factory if isinstance(factory, type) and issubclass(factory, Dataset) else Dataset
    return dataset.preparation(shape, fields, grey)

"""Datasets, one file each; the file's name is the dataset's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii import plugins
from radii.datasets._blocks import OWN as CORRUPTED_RECORD
from radii.datasets._bounded import read_npy
from radii.datasets._corruptions import KINDS as CORRUPTIONS
from radii.datasets._corruptions import corrupt
from radii.datasets._given import Samples, as_image, samples_of
from radii.datasets._layouts import pictures_in
from radii.datasets._pictures import Preparation, read_image
from radii.datasets.base import DataError, Dataset, Images, Shape

__all__ = [
    "CORRUPTED_RECORD",
    "CORRUPTIONS",
    "DataError",
    "Dataset",
    "Images",
    "Preparation",
    "Samples",
    "as_image",
    "corrupt",
    "create",
    "names",
    "pictures_in",
    "preparation",
    "read_image",
    "read_npy",
    "samples_of",
]


def names() -> list[str]:
    return plugins.names("datasets")


def create(name: str, data: Path | str | None = None, **fields: Any) -> Dataset:
    """Open a dataset by name; `data` is short for its field `path`, the folder or file that holds its files."""
    return plugins.create("datasets", Dataset, name, fields if data is None else {**fields, "path": str(data)})


def preparation(name: str, fields: Mapping[str, Any], shape: Shape) -> Preparation:
    """How a picture file becomes an image as the test images of a dataset are; its files need not be here."""
    kind = plugins.find("datasets", name, Dataset)
    chosen = kind if isinstance(kind, type) and issubclass(kind, Dataset) else Dataset
    return chosen.preparation(shape, fields)

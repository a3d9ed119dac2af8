"""Datasets, one file each; the file's name is the dataset's."""

from pathlib import Path

from radii import plugins
from radii.datasets.base import DataError, Dataset, Images

__all__ = ["DataError", "Dataset", "Images", "create", "names"]


def names() -> list[str]:
    return plugins.names("datasets")


def create(name: str, data: Path | None = None) -> Dataset:
    """Open a dataset by name; `data` is the folder (or file) that holds the publisher's files."""
    return plugins.find("datasets", name, Dataset)(data)

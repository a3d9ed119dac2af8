"""The contract of a dataset: its splits, and the parts of them that a run uses."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from radii.datasets._image_files import Preparation, read_image
from radii.datasets._images import (
    DataError,
    Images,
    InMemory,
    OnDevice,
    Shape,
    Split,
    Subset,
    as_floats,
    checked_labels,
    image_digest,
    in_memory,
    spread_evenly,
)
from radii.fields import option
from radii.plugins import Component
from radii.smoothing.addresses import generator
from radii.smoothing.normalisation import NONE, Normalisation

__all__ = [
    "DataError",
    "Dataset",
    "Images",
    "InMemory",
    "OnDevice",
    "Part",
    "Shape",
    "Split",
    "Subset",
    "as_floats",
    "checked_labels",
    "image_digest",
    "in_memory",
    "named_data",
    "spread_evenly",
]

Part = Literal["train", "validation", "test"]
"""The parts that a run uses: training images, training images that are held out, and test images."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset(Component, ABC):
    """A source of images. Its fields determine the images; opening it reads as little as possible."""

    registry: ClassVar[str] = "dataset"

    path: str | None = option(None)
    """The folder or file with the data, by default RADII_DATA. The same data at another path is the same dataset."""
    validation: int | None = option(None, ge=1)
    """Training images that are held out, to choose hyper-parameters on; by default none."""

    shape: ClassVar[Shape]
    class_names: ClassVar[tuple[str, ...]]
    """In the order of the labels."""
    normalisation: ClassVar[Normalisation] = NONE

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def data(self) -> Path | None:
        """The folder or file with the data: `path`, or else RADII_DATA."""
        named = self.path or os.environ.get("RADII_DATA")
        return Path(named) if named else None

    def set_attributes(self, **attributes: Any) -> None:
        """Set attributes that are known only from the files: shape, class_names, normalisation."""
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    @classmethod
    def preparation(cls, shape: Shape, fields: Mapping[str, Any], grey: bool = False) -> Preparation:
        """Return how an image file becomes a test image of a dataset with these fields; its files are not needed.

        `grey` allows grey pictures where the dataset has colours.
        """
        _, height, width = shape
        return Preparation(f"as they are, {width} x {height} pixels", partial(read_image, shape=shape, grey=grey))

    @abstractmethod
    def split(self, split: Split) -> Images:
        """Return the images of one split, checked."""

    def part(self, part: Part) -> Images:
        """Return the images of one part; "validation" is a number of training images, which "train" then lacks."""
        if part == "test" or (part == "train" and self.validation is None):
            return self.split(part)
        if self.validation is None:
            raise DataError(f"{self.name} has no validation images: train with dataset.validation, such as 5000")
        return _held_out(self.split("train"), self.validation, part == "validation", self.name, self.groups())

    def groups(self) -> Tensor | None:
        """Return a group number for every training image if whole groups are held out for validation, else None."""
        return None


def _held_out(whole: Images, count: int, validation: bool, name: str, groups: Tensor | None) -> Subset:
    """Return `count` images for validation, or all others; the choice depends only on the number of images.

    With groups, whole groups are chosen in a random order until they have at least `count` images.
    """
    numbers = torch.arange(len(whole)) if groups is None else groups.unique(return_inverse=True)[1]
    sizes = numbers.bincount()
    order = torch.randperm(len(sizes), generator=generator("cpu", "validation", len(sizes)))
    chosen = order[: int((sizes[order].cumsum(0) < count).sum()) + 1]
    held = torch.isin(numbers, chosen)
    if count >= len(whole) or held.all():
        raise DataError(f"{name} has {len(whole)} training images: dataset.validation = {count} leaves none")
    return Subset(whole, (held if validation else ~held).nonzero().flatten())


def named_data(dataset: Dataset, expected: str) -> Path:
    """Return the path that the user named, for a dataset that needs one."""
    if dataset.data is None:
        raise DataError(f"{dataset.name} needs {expected}: state its path", "data")
    return dataset.data

"""The contract of a dataset, and images held in memory."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.datasets._pictures import Preparation, read_image
from radii.errors import ParameterError
from radii.fields import option
from radii.plugins import Component
from radii.smoothing.addresses import generator
from radii.smoothing.normalisation import NONE, Normalisation

Split = Literal["train", "test"]
"""What a publisher divides a dataset into."""
Part = Literal["train", "validation", "test"]
"""What a run uses: the training images without those held out, those held out, and the test images."""
Shape = tuple[int, int, int]

PADDING = 4


class DataError(ParameterError):
    """A data file is missing, truncated or not what it should be."""


class Images(ABC):
    """The images of a split with their labels."""

    labels: Tensor
    """[image], int64."""

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """These images as float32 in [0, 1], contiguous [batch, channel, height, width].

        A training split is augmented where `rng` is given; the same `rng` gives the same pixels.
        """

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of what is quick to read of the split: the labels, and the pixels where they are in memory."""
        return _digest(self.labels)

    def image_digest(self, index: int) -> str:
        """The digest of one image with its label, independent of how it is stored."""
        return image_digest(self.batch(torch.tensor([index]))[0], int(self.labels[index]))


@dataclass(frozen=True, eq=False)
class InMemory(Images):
    """A split held as one tensor: bytes, or floats already in [0, 1]."""

    images: Tensor
    labels: Tensor
    augmented: bool = False

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        chosen = self.images.index_select(0, indices)
        # Before the conversion: bytes are a quarter of the traffic.
        return as_floats(crop_and_flip(chosen, rng) if self.augmented and rng is not None else chosen)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all pixels, as they are held, and labels."""
        return _digest(self.images, self.labels)


@dataclass(frozen=True, eq=False)
class Subset(Images):
    """Some images of a split, in the order of the split."""

    whole: Images
    positions: Tensor

    @property
    def labels(self) -> Tensor:  # type: ignore[override]
        return self.whole.labels[self.positions]

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return self.whole.batch(self.positions[indices], rng)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the whole split's digest and the positions in it."""
        return hashlib.sha256(f"{self.whole.digest} {_digest(self.positions)}".encode()).hexdigest()


def image_digest(pixels: Tensor, label: int) -> str:
    """16 hex digits of the SHA-256 of an image's float32 pixels [channel, height, width] and its label."""
    return _digest(pixels.to("cpu", torch.float32), torch.tensor(label))[:16]


def _digest(*tensors: Tensor) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype} {list(tensor.shape)} ".encode())
        found.update(tensor.contiguous().numpy().data)
    return found.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset(Component, ABC):
    """Where images come from. Fields determine the images; opening one reads as little as possible."""

    registry: ClassVar[str] = "dataset"

    path: str | None = option(None)
    """The folder or file that holds its files; RADII_DATA otherwise. Its location is not part of its identity."""
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
        """The folder or file that was named."""
        named = self.path or os.environ.get("RADII_DATA")
        return Path(named) if named else None

    def learned(self, **facts: Any) -> None:
        """Set what is known only from the files: shape, class_names, normalisation."""
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @classmethod
    def preparation(cls, shape: Shape, fields: Mapping[str, Any]) -> Preparation:
        """How a picture file becomes an image as the test images of these fields are; their files are not needed."""
        _, height, width = shape
        return Preparation(f"as they are, {width} x {height} pixels", partial(read_image, shape=shape))

    @abstractmethod
    def split(self, split: Split) -> Images:
        """The images of one split, checked."""

    def part(self, part: Part) -> Images:
        """The images of one part: `validation` training images are held out of "train" and are "validation"."""
        if part == "test" or (part == "train" and self.validation is None):
            return self.split(part)
        if self.validation is None:
            raise DataError(f"{self.name} has no validation images: train with dataset.validation, such as 5000")
        return _held_out(self.split("train"), self.validation, part == "validation", self.name)


def _held_out(whole: Images, count: int, chosen: bool, name: str) -> Subset:
    """The first `count` images of a random order that depends on the number of images alone, or all others."""
    if count >= len(whole):
        raise DataError(f"{name} has {len(whole)} training images: dataset.validation = {count} leaves none")
    order = torch.randperm(len(whole), generator=generator("cpu", "validation", len(whole)))
    return Subset(whole, (order[:count] if chosen else order[count:]).sort().values)


def named_data(dataset: Dataset, expected: str) -> Path:
    """The path that the user named, for a dataset that needs one."""
    if dataset.data is None:
        raise DataError(f"{dataset.name} needs {expected}: state its path", "data")
    return dataset.data


def existing_folder(path: Path) -> Path:
    """A folder that the user named, or a DataError."""
    if not path.is_dir():
        raise DataError(f"there is no folder {path}: create it, or name another", "data")
    return path


def as_floats(pixels: Tensor) -> Tensor:
    """Bytes as floats in [0, 1]; floats as they are."""
    return pixels if pixels.is_floating_point() else pixels.float().div_(255)


def crop_and_flip(images: Tensor, rng: torch.Generator) -> Tensor:
    """Each image cut from its zero-padded image at a random position, then randomly flipped.

    The result is contiguous, in the order in which noise is drawn, so that adding it is one pass over memory;
    a channels-last model reorders the sum once.
    """
    count, channels, height, width = images.shape
    top, left = torch.randint(0, 2 * PADDING + 1, (2, count), generator=rng)
    flip = torch.rand(count, generator=rng) < 0.5
    rows = top[:, None] + torch.arange(height)
    columns = left[:, None] + torch.arange(width)
    columns = torch.where(flip[:, None], columns.flip(1), columns)
    padded = F.pad(images, (PADDING,) * 4)
    # One index per pixel for all channels: several times faster than indexing rows and columns apart.
    source = (rows[:, :, None] * padded.shape[3] + columns[:, None, :]).view(count, 1, -1)
    return padded.flatten(2).gather(2, source.expand(-1, channels, -1)).view(images.shape)


def checked_labels(labels: Tensor, images: int, classes: int, where: str) -> Tensor:
    """Labels as int64: one for each image, all within the classes."""
    if not images or len(labels) != images:
        raise DataError(f"{where} has {images} images and {len(labels)} labels, expected one for each image")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise DataError(f"{where} has labels from {low} to {high}, expected 0 to {classes - 1}")
    return labels.long()

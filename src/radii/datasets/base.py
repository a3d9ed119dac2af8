"""The contract of a dataset, images in memory, and publishers' files found, downloaded and checked."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from radii.smoothing.normalisation import NONE, Normalisation

Split = Literal["train", "test"]
Shape = tuple[int, int, int]


class DataError(ValueError):
    """A data file is missing, truncated or not what it should be."""


class Images(ABC):
    """The images of a split with their labels."""

    labels: Tensor
    """[image], int64."""

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """These images as floats in [0, 1], [batch, channel, height, width]; augmented where `rng` is given."""


@dataclass(frozen=True, eq=False)
class InMemory(Images):
    """A split held as one tensor: bytes, or floats already in [0, 1]."""

    images: Tensor
    labels: Tensor
    augmented: bool = False

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        chosen = self.images[indices]
        pixels = chosen if chosen.is_floating_point() else chosen.float().div_(255)
        return crop_and_flip(pixels, rng) if rng is not None and self.augmented else pixels


class Dataset(ABC):
    """Where images come from. `data` is the folder that the user named, RADII_DATA, or none."""

    shape: Shape
    classes: int
    normalisation: ClassVar[Normalisation] = NONE

    def __init__(self, data: Path | None = None) -> None:
        named = data or os.environ.get("RADII_DATA")
        self.data = Path(named) if named else None

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def split(self, split: Split) -> Images:
        """The images of one split, checked."""


def crop_and_flip(images: Tensor, rng: torch.Generator, padding: int = 4) -> Tensor:
    """Each image cut from its zero-padded self at a place of its own, and flipped or not."""
    count, _, height, width = images.shape
    top, left = torch.randint(0, 2 * padding + 1, (2, count), generator=rng)
    flip = torch.rand(count, generator=rng) < 0.5
    rows = top[:, None] + torch.arange(height)
    columns = left[:, None] + torch.arange(width)
    columns = torch.where(flip[:, None], columns.flip(1), columns)
    padded = F.pad(images, (padding,) * 4)
    return padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def checked_labels(labels: Tensor, classes: int, where: str) -> Tensor:
    """Labels as int64, all within the classes."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise DataError(f"{where} has labels from {low} to {high}, expected 0 to {classes - 1}")
    return labels.long()


@dataclass(frozen=True)
class Published:
    """A publisher's file: its name, where it can be downloaded, and the hash that tells it is whole."""

    name: str
    url: str
    hash: str
    """`md5:...` or `sha256:...`, as the publisher states it."""


def locate(dataset: Dataset, files: Sequence[Published]) -> list[Path]:
    """The paths of publisher's files under the data folder, downloaded and checked where they are missing."""
    folders = [] if dataset.data is None else [dataset.data / dataset.name, dataset.data]
    for folder in folders:
        if all((folder / file.name).is_file() for file in files):
            return [folder / file.name for file in files]
    return _download(dataset, files)


def _download(dataset: Dataset, files: Sequence[Published]) -> list[Path]:
    import pooch

    folder = (dataset.data or Path(pooch.os_cache("radii"))) / dataset.name
    try:
        return [Path(pooch.retrieve(f.url, known_hash=f.hash, fname=f.name, path=folder, progressbar=False)) for f in files]
    except Exception as error:
        listing = ", ".join(file.name for file in files)
        raise DataError(
            f"{dataset.name} is not there and cannot be downloaded ({type(error).__name__}). "
            f"Put {listing} into {folder}, or name the folder that holds them with --data or RADII_DATA"
        ) from error

"""Your own photographs: train/<class>/ and val/<class>/ as ImageNet's, <class>/ alone for testing, or a list file."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radii.datasets._framing import SIDE, TRIES, Framing, View, random_crop, usual_resize
from radii.datasets._layouts import EXPECTED, PLACES, Layout, open_layout
from radii.datasets._pictures import Preparation, open_image
from radii.datasets.base import DataError, Dataset, Images, Shape, Split, as_floats, named_data
from radii.fields import option
from radii.smoothing.normalisation import IMAGENET, Normalisation

GREY = Normalisation((0.5,), (0.5,))
"""The normalisation of grey photographs, where none is stated."""
LOOKED_AT = 1_000
"""Photographs of a split whose sizes are read when it is opened."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Folder(Dataset):
    """Photographs, their shorter side made `resize` and the middle square of `size` pixels cut out for testing.

    `mean` and `std` standardise the channels inside the model. Labels are in the order of the class folders' names, or
    of the lines of classes.txt, which may give each class a name to show, after a tab.
    """

    size: int = option(SIDE, ge=1)
    resize: int | None = option(None, ge=1)
    """By default 256 / 224 of a size of 224 or more; a smaller size itself."""
    channels: int = option(3, ge=1, le=3)
    """3 for colours, 1 for grey."""
    enlarge: bool = False
    """Whether a photograph that is smaller than `resize` is enlarged; it is refused otherwise."""
    mean: tuple[float, ...] = option(())
    """ImageNet's by default; 0.5 for grey."""
    std: tuple[float, ...] = option(())
    _layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self.learned(mean=tuple(self.mean), std=tuple(self.std))
        super().__post_init__()
        self.learned(resize=self.resize or usual_resize(self.size))
        if self.framing.resize < self.size:
            raise ValueError(f"dataset 'folder': resize = {self.resize}, expected a number >= {self.size}, the size")
        if self.channels == 2:
            raise ValueError("dataset 'folder': channels = 2, expected 3 for colours or 1 for grey")
        constants = _constants(self.mean, self.std, self.channels)
        layout = open_layout(_existing(named_data(self, f"photographs in {EXPECTED}")))
        self.learned(mean=constants.mean, std=constants.std, normalisation=constants, _layout=layout)
        self.learned(shape=(self.channels, self.size, self.size), class_names=layout.class_names)

    @property
    def framing(self) -> Framing:
        return Framing.of(vars(self))

    @classmethod
    def preparation(cls, shape: Shape, fields: Mapping[str, Any]) -> Preparation:
        framing = Framing.of(fields)
        return Preparation(framing.words, framing.read)

    def split(self, split: Split) -> "Photographs":
        if split not in self._layout.places:
            expected = " or ".join(f"{name}/<class>/" for name in PLACES[split])
            raise DataError(f"{self.path or self.data} has no {split} split: put its photographs into {expected}")
        files, labels = self._layout.listing(split)
        found = Photographs(files, torch.tensor(labels), self.framing, augmented=split == "train")
        found.expect_large()
        return found


def _existing(path: Path) -> Path:
    if not path.exists():
        raise DataError(f"there is no folder {path}: create it, or name another", "data")
    return path


def _constants(mean: Sequence[float], std: Sequence[float], channels: int) -> Normalisation:
    usual = GREY if channels == 1 else IMAGENET
    found = Normalisation(tuple(mean) or usual.mean, tuple(std) or usual.std)
    if len(found.mean) != channels or len(found.std) != channels or min(found.std) <= 0:
        number = {1: "one", 3: "three"}[channels]
        raise ValueError(f"dataset 'folder': mean and std = {tuple(found)}, expected {number} each, std > 0")
    return found


@dataclass(frozen=True, eq=False)
class Photographs(Images):
    """Photographs on disk, read and decoded by threads."""

    files: Sequence[str]
    labels: Tensor
    framing: Framing
    augmented: bool

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        chosen = [self.files[index] for index in indices.tolist()]
        views: Sequence[View] = [self.framing.middle] * len(chosen)
        size = self.framing.size
        if self.augmented and rng is not None:
            # All draws come before any work, so that the result does not depend on thread order.
            draws = torch.rand((len(chosen), 1 + 4 * TRIES), generator=rng).tolist()
            views = [partial(random_crop, draws=row, size=size) for row in draws]
        pixels = torch.empty((len(chosen), self.framing.channels, size, size), dtype=torch.uint8)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.framing.read_into, pixels.numpy(), chosen, views))
        return as_floats(pixels)

    def expect_large(self) -> None:
        """Refuse photographs that are too small before any work; of a large split, only some are looked at."""
        for file in self.files[:: -(-len(self.files) // LOOKED_AT)]:
            try:
                with open_image(file) as photograph:
                    size = photograph.size
            except Exception:  # one that cannot be read is reported when it is needed
                continue
            self.framing.expect_large(file, size)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the files' names, sizes and labels, and of the crop: reading all pixels would take hours."""
        framing = self.framing
        grey = " grey" if framing.channels == 1 else ""
        found = hashlib.sha256(f"{framing.size} {framing.resize}{grey}".encode())
        for file, label in zip(map(Path, self.files), self.labels.tolist(), strict=True):
            found.update(f"\0{file.parent.name}/{file.name} {file.stat().st_size} {label}".encode())
        return found.hexdigest()

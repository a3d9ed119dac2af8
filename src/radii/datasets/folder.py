"""A folder of photographs in class folders, ImageNet's layout: train/<class>/* and val/<class>/*."""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.datasets._pictures import eight_bits, open_image
from radii.datasets.base import DataError, Dataset, Images, Split, as_floats, existing_folder, named_data
from radii.fields import option
from radii.smoothing.normalisation import IMAGENET, Normalisation

SIDE = 224
SHORTER_SIDE = 256
SMALLEST_AREA = 0.08
WIDEST_RATIO = 4 / 3
TRIES = 10
"""Crops drawn per photograph; the first that fits is used."""

LAYOUT: dict[Split, tuple[str, ...]] = {"train": ("train",), "test": ("val", "test")}
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"}

View = Callable[[Image.Image], Image.Image]


@dataclass(frozen=True, kw_only=True, eq=False)
class Folder(Dataset):
    """Photographs, their shorter side made `resize` and the middle square of `size` pixels cut out for testing.

    `mean` and `std` standardise the channels inside the model: ImageNet's by default.
    """

    size: int = option(SIDE, ge=1)
    resize: int | None = option(None, ge=1)
    """256 / 224 of the size by default."""
    mean: tuple[float, ...] = option(IMAGENET.mean)
    std: tuple[float, ...] = option(IMAGENET.std)
    _root: Path = field(init=False)
    _class_folders: dict[Split, list[Path]] = field(init=False)

    def __post_init__(self) -> None:
        constants = Normalisation(tuple(self.mean), tuple(self.std))
        self.learned(mean=constants.mean, std=constants.std)
        super().__post_init__()
        shorter = self.resize or self.size * SHORTER_SIDE // SIDE
        if shorter < self.size:
            raise ValueError(f"dataset 'folder': resize = {shorter}, expected a number >= {self.size}, the size")
        if len(constants.mean) != 3 or len(constants.std) != 3 or min(constants.std) <= 0:
            raise ValueError(f"dataset 'folder': mean and std = {tuple(constants)}, expected three each, std > 0")
        root = existing_folder(named_data(self, "a folder with train/<class>/ and val/<class>/"))
        folders = _class_folders(root)
        self.learned(_root=root, _class_folders=folders, class_names=_class_names(folders, root))
        self.learned(resize=shorter, shape=(3, self.size, self.size), normalisation=constants)

    def split(self, split: Split) -> "Photographs":
        if split not in self._class_folders:
            expected = " or ".join(f"{name}/<class>/" for name in LAYOUT[split])
            raise DataError(f"{self._root} has no {split} split: put its photographs into {expected}")
        listings = [_photographs(folder) for folder in self._class_folders[split]]
        labels = torch.arange(self.classes).repeat_interleave(torch.tensor([len(files) for files in listings]))
        shorter = cast(int, self.resize)
        return Photographs(list(chain.from_iterable(listings)), labels, self.size, shorter, augmented=split == "train")


def _class_names(folders: dict[Split, list[Path]], root: Path) -> tuple[str, ...]:
    names = [[folder.name for folder in found] for found in folders.values()]
    if odd := sorted(set(names[0]) ^ set(names[-1])):
        raise DataError(f"{root}: the class folder {odd[0]} is in one split only, expected in both")
    return tuple(names[0])


@dataclass(frozen=True, eq=False)
class Photographs(Images):
    """Photographs on disk, read and decoded by threads."""

    files: Sequence[str]
    labels: Tensor
    size: int
    shorter: int
    augmented: bool

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        chosen = [self.files[index] for index in indices.tolist()]
        views: Sequence[View] = [partial(centre_crop, size=self.size, shorter=self.shorter)] * len(chosen)
        if self.augmented and rng is not None:
            # All draws come before any work, so that the result does not depend on thread order.
            draws = torch.rand((len(chosen), 1 + 4 * TRIES), generator=rng).tolist()
            views = [partial(random_crop, draws=row, size=self.size) for row in draws]
        pixels = torch.empty((len(chosen), 3, self.size, self.size), dtype=torch.uint8)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_read_into, pixels.numpy(), chosen, views))
        return as_floats(pixels)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the files' names, sizes and labels, and of the crop: reading all pixels would take hours."""
        found = hashlib.sha256(f"{self.size} {self.shorter}".encode())
        for file, label in zip(map(Path, self.files), self.labels.tolist(), strict=True):
            found.update(f"\0{file.parent.name}/{file.name} {file.stat().st_size} {label}".encode())
        return found.hexdigest()


def centre_crop(image: Image.Image, size: int = SIDE, shorter: int = SHORTER_SIDE) -> Image.Image:
    """The middle square of a photograph whose shorter side is made `shorter`."""
    width, height = (shorter * side // min(image.size) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + size, top + size))


def random_crop(image: Image.Image, draws: Sequence[float], size: int = SIDE) -> Image.Image:
    """A crop of random size, shape and position, resized and randomly flipped; `draws` are uniform on [0, 1)."""
    cropped = image.crop(crop_box(*image.size, draws[1:])).resize((size, size), Image.Resampling.BILINEAR)
    return cropped.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if draws[0] < 0.5 else cropped


def crop_box(width: int, height: int, draws: Sequence[float]) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of the first crop that fits: 8 % to all of the area, sides from 3:4 to 4:3."""
    for at in range(0, len(draws), 4):
        size, stretch, across, down = draws[at : at + 4]
        area = width * height * (SMALLEST_AREA + (1 - SMALLEST_AREA) * size)
        ratio = WIDEST_RATIO ** (2 * stretch - 1)
        wide, high = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < wide <= width and 0 < high <= height:
            left, top = int(across * (width - wide + 1)), int(down * (height - high + 1))
            return left, top, left + wide, top + high
    wide, high = min(width, round(height * WIDEST_RATIO)), min(height, round(width * WIDEST_RATIO))
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high


def _read_into(pixels: NDArray[np.uint8], file: str, view: View) -> None:
    try:
        with open_image(file) as photograph:
            shown = view(eight_bits(photograph).convert("RGB"))
    except Exception as error:
        # Pillow's decoders raise errors of many kinds.
        raise DataError(f"{file} is not a readable photograph ({error}): replace or remove it") from error
    pixels[:] = np.asarray(shown).transpose(2, 0, 1)


def _class_folders(root: Path) -> dict[Split, list[Path]]:
    """The class folders of the splits that are there, by name: their order is the labels'."""
    found: dict[Split, list[Path]] = {}
    for split, places in LAYOUT.items():
        if folder := next((root / place for place in places if (root / place).is_dir()), None):
            found[split] = [path for path in _visible(folder) if path.is_dir()]
            if not found[split]:
                raise DataError(f"{folder} holds no class folders: put its photographs into {folder}/<class>/")
    if not found:
        raise DataError(f"{root} holds neither train/ nor val/, expected train/<class>/ and val/<class>/")
    return found


def _photographs(folder: Path) -> list[str]:
    files = [str(path) for path in _visible(folder) if path.suffix.lower() in SUFFIXES]
    if not files:
        raise DataError(f"the class folder {folder} holds no photographs, expected .jpeg, .png and the like")
    return files


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))

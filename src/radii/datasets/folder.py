"""Your own photographs: train/<class>/ and val/<class>/ as ImageNet's, <class>/ alone for testing, or a list file."""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.datasets._folder_layout import EXPECTED, SPLIT_NAMES, Layout, read_layout
from radii.datasets._image_files import Preparation, eight_bits, open_image
from radii.datasets.base import DataError, Dataset, Images, Shape, Split, as_floats, named_data
from radii.fields import option
from radii.smoothing.normalisation import IMAGENET, Normalisation
from radii.smoothing.streams import uniform_rows

SIZE, RESIZE = 224, 256
"""ImageNet's side of the central crop, and the shorter side before cropping."""
SMALLEST_AREA = 0.08
WIDEST_RATIO = 4 / 3
TRIES = 10
"""Random crops drawn per photograph; the first that fits is used."""
GREY = Normalisation((0.5,), (0.5,))
"""The normalisation of grey photographs, where none is stated."""
SIZES_READ = 1_000
"""The most photographs of a split whose sizes are checked when it is opened."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Folder(Dataset):
    """Photographs; for testing, the shorter side is made `resize` and the middle square of `size` pixels cut out.

    `mean` and `std` standardise the channels inside the model. Labels are in the order of the class folders' names, or
    of the lines of classes.txt, which may give each class a name to show, after a tab.
    """

    size: int = option(SIZE, ge=1)
    resize: int | None = option(None, ge=1)
    """By default 256 / 224 of a size of 224 or more; a smaller size itself."""
    channels: int = option(3, ge=1, le=3)
    """3 for colours, 1 for grey."""
    enlarge: bool = False
    """Whether photographs smaller than `resize` are enlarged; otherwise they are refused."""
    draft: bool | None = option(None)
    """Whether a large JPEG is decoded at a half, a quarter or an eighth of its size, if the crop is smaller still. This
    is faster and changes the pixels slightly, in training, certification, predict and serve alike."""
    mean: tuple[float, ...] = option(())
    """ImageNet's by default; 0.5 for grey."""
    std: tuple[float, ...] = option(())
    _layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self.set_attributes(mean=tuple(self.mean), std=tuple(self.std))
        super().__post_init__()
        # A false `draft` is not recorded, so that older runs, which lack the field, are equal.
        self.set_attributes(resize=self.resize or default_resize(self.size), draft=self.draft or None)
        if self.transform.resize < self.size:
            raise ValueError(f"dataset 'folder': resize = {self.resize}, expected a number >= {self.size}, the size")
        if self.channels == 2:
            raise ValueError("dataset 'folder': channels = 2, expected 3 for colours or 1 for grey")
        constants = _constants(self.mean, self.std, self.channels)
        root = named_data(self, f"photographs in {EXPECTED}")
        if not root.exists():
            raise DataError(f"there is no folder {root}: create it, or name another", "data")
        layout = read_layout(root)
        self.set_attributes(mean=constants.mean, std=constants.std, normalisation=constants, _layout=layout)
        self.set_attributes(shape=(self.channels, self.size, self.size), class_names=layout.class_names)

    @property
    def transform(self) -> "Transform":
        return Transform.from_fields(vars(self))

    @classmethod
    def preparation(cls, shape: Shape, fields: Mapping[str, Any], grey: bool = False) -> Preparation:
        transform = Transform.from_fields(fields)
        return Preparation(transform.description, transform.read)

    def split(self, split: Split) -> "Photographs":
        if split not in self._layout.splits:
            expected = " or ".join(f"{name}/<class>/" for name in SPLIT_NAMES[split])
            raise DataError(f"{self.path or self.data} has no {split} split: put its photographs into {expected}")
        files, labels = self._layout.listing(split)
        photographs = Photographs(files, torch.tensor(labels), self.transform, augmented=split == "train")
        photographs.check_sizes()
        return photographs


def _constants(mean: Sequence[float], std: Sequence[float], channels: int) -> Normalisation:
    default = GREY if channels == 1 else IMAGENET
    constants = Normalisation(tuple(mean) or default.mean, tuple(std) or default.std)
    if len(constants.mean) != channels or len(constants.std) != channels or min(constants.std) <= 0:
        number = {1: "one", 3: "three"}[channels]
        raise ValueError(f"dataset 'folder': mean and std = {tuple(constants)}, expected {number} each, std > 0")
    return constants


@dataclass(frozen=True, eq=False)
class Photographs(Images):
    """Photographs on disk, read and decoded by threads."""

    files: Sequence[str]
    labels: Tensor
    transform: "Transform"
    augmented: bool

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return as_floats(self.load(indices, rng))

    def load(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Decode the photographs as bytes."""
        files = [self.files[index] for index in indices.tolist()]
        size = self.transform.size
        draws: Sequence[Sequence[float] | None] = [None] * len(files)
        if self.augmented and rng is not None:
            # All draws come before any work, so that the result does not depend on thread order.
            draws = uniform_rows(len(files), 1 + 4 * TRIES, rng).tolist()
        pixels = torch.empty((len(files), self.transform.channels, size, size), dtype=torch.uint8)
        list(decoders(os.getpid()).map(self.transform.read_into, pixels.numpy(), files, draws))
        return pixels

    def check_sizes(self) -> None:
        """Raise a DataError for photographs that are too small; of a large split, only some are checked."""
        for file in self.files[:: -(-len(self.files) // SIZES_READ)]:
            try:
                with open_image(file) as photograph:
                    size = photograph.size
            except Exception:  # an unreadable photograph is reported when it is needed
                continue
            self.transform.check_size(file, size)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the files' names, sizes and labels, and of the crop: reading all pixels would take hours."""
        transform = self.transform
        grey = " grey" if transform.channels == 1 else ""
        draft = " draft" if transform.draft else ""
        digest = hashlib.sha256(f"{transform.size} {transform.resize}{grey}{draft}".encode())
        for file, label in zip(map(Path, self.files), self.labels.tolist(), strict=True):
            digest.update(f"\0{file.parent.name}/{file.name} {file.stat().st_size} {label}".encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class Transform:
    """Makes the shorter side of a photograph `resize`, and cuts out the middle square of `size` pixels."""

    size: int = SIZE
    resize: int = RESIZE
    channels: int = 3
    enlarge: bool = False
    draft: bool = False

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Transform":
        """Return the transform of a dataset `folder` with these fields."""
        size = fields.get("size", SIZE)
        resize = fields.get("resize") or default_resize(size)
        channels, enlarge = fields.get("channels", 3), fields.get("enlarge", False)
        return cls(size, resize, channels, enlarge, bool(fields.get("draft")))

    @property
    def description(self) -> str:
        grey = ", in grey" if self.channels == 1 else ""
        draft = ", large JPEGs decoded at a part of their size" if self.draft else ""
        return f"shorter side made {self.resize} pixels, the middle {self.size} x {self.size} cut out{grey}{draft}"

    def read(self, file: Path | str) -> Tensor:
        """Read a photograph as a test image: floats in [0, 1]."""
        pixels = torch.empty((self.channels, self.size, self.size), dtype=torch.uint8)
        self.read_into(pixels.numpy(), str(file))
        return as_floats(pixels)

    def read_into(self, pixels: NDArray[np.uint8], file: str, draws: Sequence[float] | None = None) -> None:
        """Write the middle of a photograph, or a random crop, into an array [channel, height, width]."""
        try:
            with open_image(file) as photograph:
                whole = photograph.size
                self.check_size(file, whole)
                drafted = photograph.draft(None, self._needed(*whole, draws)) if self.draft else None
                image = eight_bits(photograph).convert("L" if self.channels == 1 else "RGB")
            # Not from the sides of `image`, which Pillow rounds up to whole pixels.
            part = drafted[1][2] / whole[0] if drafted else 1.0
            if draws is None:
                cropped = centre_crop(image, self.size, self.resize, whole, part)
            else:
                cropped = random_crop(image, draws, self.size, whole, part)
        except DataError:
            raise
        except Exception as error:
            # Pillow's decoders raise errors of many kinds.
            raise DataError(f"{file} is not a readable photograph ({error}): replace or remove it") from error
        pixels[:] = np.asarray(cropped).reshape(self.size, self.size, self.channels).transpose(2, 0, 1)

    def _needed(self, width: int, height: int, draws: Sequence[float] | None) -> tuple[int, int]:
        """Return the smallest size of the whole photograph at which its crop need not be enlarged."""
        if draws is None:
            side, wide, high = self.resize, min(width, height), min(width, height)
        else:
            left, top, right, bottom = crop_box(width, height, draws[1:])
            side, wide, high = self.size, right - left, bottom - top
        return math.ceil(width * side / wide), math.ceil(height * side / high)

    def check_size(self, file: str, size: tuple[int, int]) -> None:
        """Raise a DataError for a photograph that would be enlarged, unless `enlarge` allows it."""
        if min(size) < self.resize and not self.enlarge:
            raise DataError(
                f"{file} is {size[0]} x {size[1]} pixels and would be enlarged, its shorter side to {self.resize}: "
                f"state a smaller size or resize, or enlarge = true",
                "enlarge",
            )


def decoder_threads() -> int:
    """Return this process's share of the cores: torchrun states how many processes it started on this machine."""
    return max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


@lru_cache(maxsize=1)
def decoders(process: int) -> ThreadPoolExecutor:
    """Return the threads that decode photographs in a process; a fork needs its own, since it does not copy threads."""
    return ThreadPoolExecutor(decoder_threads(), thread_name_prefix=f"decoder-{process}")


def default_resize(size: int) -> int:
    """Return the shorter side before cropping: ImageNet's ratio for its sizes, a smaller size itself."""
    return size * RESIZE // SIZE if size >= SIZE else size


def centre_crop(
    image: Image.Image,
    size: int = SIZE,
    resize: int = RESIZE,
    whole: tuple[int, int] | None = None,
    part: float = 1.0,
) -> Image.Image:
    """Cut the middle square out of a photograph whose shorter side is made `resize`.

    `whole` is the photograph's own size if it was decoded at a `part` of it.
    """
    whole = whole or image.size
    width, height = (resize * side // min(whole) for side in whole)
    left, top = round((width - size) / 2), round((height - size) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR, (0, 0, whole[0] * part, whole[1] * part))
    return resized.crop((left, top, left + size, top + size))


def random_crop(
    image: Image.Image,
    draws: Sequence[float],
    size: int = SIZE,
    whole: tuple[int, int] | None = None,
    part: float = 1.0,
) -> Image.Image:
    """Cut out a random rectangle, resize it and flip it randomly; `draws` are uniform on [0, 1).

    `whole` is the photograph's own size if it was decoded at a `part` of it.
    """
    left, top, right, bottom = crop_box(*(whole or image.size), draws[1:])
    if part == 1:
        cropped = image.crop((left, top, right, bottom)).resize((size, size), Image.Resampling.BILINEAR)
    else:
        box = (left * part, top * part, right * part, bottom * part)
        cropped = image.resize((size, size), Image.Resampling.BILINEAR, box)
    return cropped.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if draws[0] < 0.5 else cropped


def crop_box(width: int, height: int, draws: Sequence[float]) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom of the first crop that fits: 8 % to all of the area, sides from 3:4 to 4:3."""
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

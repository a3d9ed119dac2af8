"""How photographs become images of one size: the middle for testing, random crops for training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.datasets._pictures import eight_bits, open_image
from radii.datasets.base import DataError, as_floats

SIDE = 224
SHORTER_SIDE = 256
SMALLEST_AREA = 0.08
WIDEST_RATIO = 4 / 3
TRIES = 10
"""Crops drawn per photograph; the first that fits is used."""

View = Callable[[Image.Image], Image.Image]


@dataclass(frozen=True)
class Framing:
    """What is done to a photograph: the shorter side made `resize`, the middle square of `size` pixels cut out."""

    size: int = SIDE
    resize: int = SHORTER_SIDE
    channels: int = 3
    enlarge: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Framing":
        """The framing that the fields of the dataset `folder` state."""
        size = fields.get("size", SIDE)
        resize = fields.get("resize") or usual_resize(size)
        return cls(size, resize, fields.get("channels", 3), fields.get("enlarge", False))

    @property
    def words(self) -> str:
        grey = ", in grey" if self.channels == 1 else ""
        return f"shorter side made {self.resize} pixels, the middle {self.size} x {self.size} cut out{grey}"

    def middle(self, image: Image.Image) -> Image.Image:
        return centre_crop(image, self.size, self.resize)

    def read(self, file: Path | str) -> Tensor:
        """A photograph as a test image: floats in [0, 1]."""
        pixels = torch.empty((self.channels, self.size, self.size), dtype=torch.uint8)
        self.read_into(pixels.numpy(), str(file), self.middle)
        return as_floats(pixels)

    def read_into(self, pixels: NDArray[np.uint8], file: str, view: View) -> None:
        """Write a view of a photograph into an array [channel, height, width]."""
        try:
            with open_image(file) as photograph:
                self.expect_large(file, photograph.size)
                shown = view(eight_bits(photograph).convert("L" if self.channels == 1 else "RGB"))
        except DataError:
            raise
        except Exception as error:
            # Pillow's decoders raise errors of many kinds.
            raise DataError(f"{file} is not a readable photograph ({error}): replace or remove it") from error
        pixels[:] = np.asarray(shown).reshape(self.size, self.size, self.channels).transpose(2, 0, 1)

    def expect_large(self, file: str, size: tuple[int, int]) -> None:
        """Raise a DataError for a photograph that would be enlarged although nobody said so."""
        if min(size) < self.resize and not self.enlarge:
            raise DataError(
                f"{file} is {size[0]} x {size[1]} pixels and would be enlarged, its shorter side to {self.resize}: "
                f"state a smaller size or resize, or enlarge = true",
                "enlarge",
            )


def usual_resize(size: int) -> int:
    """The shorter side before cutting, where none is stated: ImageNet's share more than the size, for its sizes."""
    return size * SHORTER_SIDE // SIDE if size >= SIDE else size


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

"""Read image files as tensors."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.errors import ParameterError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "PPM", "TIFF", "GIF")
"""The formats that are opened; the decoders of others start other programs, or are rarely tested."""
MOST_PIXELS = 1 << 26
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N")
EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV", "La", "RGBa")


GREY_MODES = ("1", "L", "LA", "La", *SIXTEEN_BITS)


class Preparation(NamedTuple):
    """How an image file becomes a test image of a dataset: in words, and as a function."""

    words: str
    read: Callable[[Path], Tensor]


def read_image(path: Path, shape: tuple[int, int, int], grey: bool = False) -> Tensor:
    """Read an image file as pixels in [0, 1] with the model's channels; raise a ValueError for another size.

    A grey picture is refused for a colour model unless `grey` allows it.
    """
    channels, height, width = shape
    try:
        with open_image(path) as image:
            size, mode = image.size, image.mode
            pixels = pixels_of(image, channels) if size == (width, height) else np.empty(0, np.float32)
    except OSError as error:
        raise ValueError(f"cannot read {path} as an image: {error.strerror or error}") from error
    except Exception as error:
        # Pillow's decoders raise errors of many kinds.
        raise ValueError(f"cannot read {path} as an image: {error}") from error
    if size != (width, height):
        raise ValueError(
            f"{path} is {size[0]} x {size[1]} pixels, the model takes {width} x {height}: resize or crop it first"
        )
    if channels == 3 and mode in GREY_MODES and not grey:
        raise ParameterError(f"{path} is grey, the model was trained on colours: choose another picture", "grey")
    return torch.from_numpy(pixels).reshape(height, width, channels).permute(2, 0, 1)


def open_image(path: Path | str) -> Image.Image:
    """Open an image and read only its header, so that its size and depth are known before decoding."""
    image = Image.open(path, formats=FORMATS)
    problem = ""
    if image.width * image.height > MOST_PIXELS:
        problem = f"it is {image.width} x {image.height} pixels, {MOST_PIXELS:,} at most are read"
    elif image.mode not in (*EIGHT_BITS, *SIXTEEN_BITS):
        problem = f"its pixels are of the kind {image.mode}, expected 8 or 16 bits per channel"
    if problem:
        image.close()
        raise ValueError(problem)
    return image


def eight_bits(image: Image.Image) -> Image.Image:
    """Return the image with 8 bits per channel; Pillow itself would clip 16 bits at 255."""
    if image.mode not in SIXTEEN_BITS:
        return image
    return Image.fromarray(((np.asarray(image).astype(np.uint32) + 128) // 257).astype(np.uint8))


def pixels_of(image: Image.Image, channels: int) -> NDArray[np.float32]:
    """Return the pixels of an image in [0, 1], grey or colour: [height, width] or [height, width, channel]."""
    if image.mode in SIXTEEN_BITS:
        grey = (np.asarray(image).astype(np.float64) / 65_535).astype(np.float32)
        return np.repeat(grey[..., None], channels, axis=2)
    return np.asarray(image.convert("L" if channels == 1 else "RGB"), dtype=np.float32) / np.float32(255)

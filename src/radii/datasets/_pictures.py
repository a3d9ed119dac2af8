"""Picture files as tensors."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.datasets.base import Shape

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "PPM", "TIFF", "GIF")
"""What is opened: decoders of other formats start programs of their own, or are seldom tried."""
MOST_PIXELS = 1 << 26
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N")
EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV", "La", "RGBa")


def read_picture(path: Path, shape: Shape) -> Tensor:
    """A picture file as pixels in [0, 1] of a model's channels; its size must be the model's."""
    channels, height, width = shape
    try:
        with open_picture(path) as picture:
            size = picture.size
            pixels = _pixels(picture, channels) if size == (width, height) else np.empty(0, np.float32)
    except OSError as error:
        raise ValueError(f"cannot read {path} as a picture: {error.strerror or error}") from error
    except Exception as error:
        # Pillow's decoders raise errors of many kinds.
        raise ValueError(f"cannot read {path} as a picture: {error}") from error
    if size != (width, height):
        got = f"{size[0]} x {size[1]}"
        raise ValueError(f"{path} is {got} pixels, the model takes {width} x {height}: resize or crop it first")
    return torch.from_numpy(pixels).reshape(height, width, channels).permute(2, 0, 1)


def open_picture(path: Path | str) -> Image.Image:
    """A picture of which only the head is read yet, so that its size and depth are known before any decoding."""
    picture = Image.open(path, formats=FORMATS)
    problem = ""
    if picture.width * picture.height > MOST_PIXELS:
        problem = f"it is {picture.width} x {picture.height} pixels, {MOST_PIXELS:,} at most are read"
    elif picture.mode not in (*EIGHT_BITS, *SIXTEEN_BITS):
        problem = f"its pixels are of the kind {picture.mode}, expected 8 or 16 bits a channel"
    if problem:
        picture.close()
        raise ValueError(problem)
    return picture


def eight_bits(picture: Image.Image) -> Image.Image:
    """The picture with 8 bits a channel; Pillow itself would cut all above 255 of 16 off."""
    if picture.mode not in SIXTEEN_BITS:
        return picture
    return Image.fromarray(((np.asarray(picture).astype(np.uint32) + 128) // 257).astype(np.uint8))


def _pixels(picture: Image.Image, channels: int) -> NDArray[np.float32]:
    if picture.mode in SIXTEEN_BITS:
        grey = (np.asarray(picture).astype(np.float64) / 65_535).astype(np.float32)
        return np.repeat(grey[..., None], channels, axis=2)
    return np.asarray(picture.convert("L" if channels == 1 else "RGB"), dtype=np.float32) / np.float32(255)

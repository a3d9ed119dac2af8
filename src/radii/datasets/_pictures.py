"""Picture files as tensors."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from radii.datasets.base import Shape


def read_picture(path: Path, shape: Shape) -> Tensor:
    """A picture file as pixels in [0, 1] of a model's channels; its size must be the model's."""
    channels, height, width = shape
    try:
        picture = Image.open(path).convert("L" if channels == 1 else "RGB")
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path} as a picture: {error}") from error
    if picture.size != (width, height):
        got = f"{picture.width} x {picture.height}"
        raise ValueError(f"{path} is {got} pixels, the model takes {width} x {height}: resize or crop it first")
    pixels = torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)
    return pixels.reshape(height, width, channels).permute(2, 0, 1)

"""SVHN: 73,257 + 26,032 digits of house numbers, 32x32 (Netzer et al. 2011)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from radii.datasets._mat import read_arrays
from radii.datasets._published import Published, locate
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, checked_labels

SITE = "http://ufldl.stanford.edu/housenumbers"


@dataclass(frozen=True, kw_only=True, eq=False)
class Svhn(Dataset):
    shape: ClassVar[Shape] = (3, 32, 32)
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")
    files: ClassVar[dict[Split, Published]] = {
        "train": Published(f"{SITE}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        "test": Published(f"{SITE}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    }

    def split(self, split: Split) -> InMemory:
        (path,) = locate(self, [self.files[split]])
        pixels, digits = read_mat(path, self.files[split].md5)
        images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))
        numbers = torch.from_numpy(digits.astype(np.int64).ravel())
        labels = checked_labels(torch.where(numbers == 10, 0, numbers), len(images), self.classes, str(path))
        return InMemory(images, labels, augmented=split == "train")


def read_mat(path: Path, md5: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """X, [height, width, channel, image] bytes, and y, [image, 1], where 10 stands for the digit 0."""
    content = read_arrays(path, md5)
    pixels, digits = content.get("X"), content.get("y")
    if pixels is None or digits is None:
        raise DataError(f"{path} does not hold the arrays X and y: fetch it again")
    if pixels.dtype != np.uint8 or pixels.shape[:3] != (32, 32, 3) or pixels.ndim != 4:
        raise DataError(f"{path}: X is {pixels.dtype} {list(pixels.shape)}, expected uint8 [32, 32, 3, n]")
    if not np.issubdtype(digits.dtype, np.integer):
        raise DataError(f"{path}: y is {digits.dtype}, expected integers from 1 to 10")
    return pixels, digits

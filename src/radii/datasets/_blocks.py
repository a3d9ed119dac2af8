"""The .npy layout of CIFAR-10-C: a file for each kind of corruption, its five severities one after the other."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radii.datasets._bounded import read_npy
from radii.datasets.base import DataError, InMemory, Shape, Split, checked_labels
from radii.published_datasets import SEVERITIES

OWN = "radii-corrupted.json"
"""The file beside the images that says that radii made them, and how."""


def only_test(name: str, split: Split) -> None:
    """Refuse the training split of a dataset that has none."""
    if split != "test":
        raise DataError(f"{name} has test images alone, no {split} split: train on the dataset that it corrupts")


def read_kind(folder: Path, kind: str, severity: int, shape: Shape, classes: int) -> InMemory:
    """The images of a kind of corruption at a severity, or with 0 all of them, one severity after the other."""
    images, labels = (read_npy(_existing(folder / f"{name}.npy")) for name in (kind, "labels"))
    where = f"{folder / kind}.npy"
    if labels.ndim != 1 or len(labels) % len(SEVERITIES) or len(labels) != len(images):
        raise DataError(f"{where} has {len(images)} images and labels.npy has {labels.shape}, expected five severities")
    block = len(labels) // len(SEVERITIES)
    chosen = slice(None) if severity == 0 else slice((severity - 1) * block, severity * block)
    return in_memory(images[chosen], labels[chosen], shape, classes, where)


def in_memory(images: NDArray[Any], labels: NDArray[Any], shape: Shape, classes: int, where: str) -> InMemory:
    """Bytes [n, height, width, channel], or without the channel, and whole numbers [n] as a split, checked."""
    channels, height, width = shape
    if channels == 1 and images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.shape[1:] != (height, width, channels):
        wanted = f"uint8 [n, {height}, {width}, {channels}]"
        raise DataError(f"{where} is {images.dtype} {list(images.shape)}, expected {wanted}")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"the labels of {where} are {labels.dtype} {list(labels.shape)}, expected whole numbers [n]")
    pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    whole = torch.from_numpy(labels.astype(np.int64))
    return InMemory(pixels, checked_labels(whole, len(pixels), classes, where))


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise DataError(f"there is no file {file}: expected one .npy file for each kind, and labels.npy", "data")
    return file

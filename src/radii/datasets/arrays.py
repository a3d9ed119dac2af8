"""Arrays: your own images and labels in an .npz file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.datasets._files import read_npz
from radii.datasets.base import DataError, Dataset, InMemory, Split, checked_labels, named_data

PREFIXES: dict[Split, tuple[str, ...]] = {"train": ("train_",), "test": ("test_", "")}
"""Prefixes of the names of the images and labels, for each split."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrays(Dataset):
    """The arrays train_images, train_labels, test_images and test_labels; or images and labels, a test split.

    Images are bytes, or floats in [0, 1]: [n, h, w], [n, h, w, c] or [n, c, h, w], where c is 1 or 3. An array
    class_names may name the classes.
    """

    _file: Path = field(init=False)
    _splits: dict[Split, InMemory] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        named = named_data(self, "an .npz file with images and labels")
        file = named / "arrays.npz" if named.is_dir() else named
        if not file.is_file():
            raise DataError(f"there is no file {file}: name an .npz file, or a folder with arrays.npz", "data")
        content = read_npz(file)
        splits = _read_splits(content, file)
        shapes = {tuple(split.images.shape[1:]) for split in splits.values()}
        if len(shapes) != 1:
            raise DataError(f"{file} holds images of {len(shapes)} shapes, {sorted(shapes)}, expected one")
        classes = 1 + max(int(split.labels.max()) for split in splits.values())
        self.set_attributes(
            _file=file, _splits=splits, shape=shapes.pop(), class_names=_class_names(content, classes, file)
        )

    def split(self, split: Split) -> InMemory:
        if split not in self._splits:
            prefixes = " or ".join(f"{prefix}images and {prefix}labels" for prefix in PREFIXES[split])
            raise DataError(f"{self._file} has no {split} split: add the arrays {prefixes}")
        return self._splits[split]


def _class_names(content: Mapping[str, NDArray[Any]], classes: int, path: Path) -> tuple[str, ...]:
    names = tuple(map(str, content.get("class_names", np.arange(classes)).tolist()))
    if len(names) < classes:
        raise DataError(f"{path} names {len(names)} classes in class_names, but its labels go to {classes - 1}")
    return names


def _read_splits(content: Mapping[str, NDArray[Any]], path: Path) -> dict[Split, InMemory]:
    splits: dict[Split, InMemory] = {}
    for split, prefixes in PREFIXES.items():
        for prefix in prefixes:
            images, labels = f"{prefix}images", f"{prefix}labels"
            if images in content and labels in content and split not in splits:
                pixels = _pixels(content[images], f"{path}: {images}")
                splits[split] = InMemory(pixels, _labels(content[labels], len(pixels), f"{path}: {labels}"))
    if not splits:
        got = ", ".join(content) or "nothing"
        raise DataError(
            f"{path} holds {got}, expected images and labels, "
            "or train_images, train_labels, test_images and test_labels"
        )
    return splits


def _pixels(images: NDArray[Any], where: str) -> Tensor:
    """Return images as contiguous [n, c, h, w]: bytes, or float32 in [0, 1]."""
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise DataError(f"{where} has the shape {list(images.shape)}, expected [n, h, w], [n, h, w, c] or [n, c, h, w]")
    if images.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(images))
    if not np.issubdtype(images.dtype, np.floating):
        raise DataError(f"{where} is {images.dtype}, expected uint8, or floats in [0, 1]")
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):
        raise DataError(f"{where} has pixels from {low:g} to {high:g}, expected floats in [0, 1]: scale them")
    return torch.from_numpy(np.ascontiguousarray(images, np.float32))


def _labels(labels: NDArray[Any], images: int, where: str) -> Tensor:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{where} is {labels.dtype} {list(labels.shape)}, expected integers [n]")
    whole = torch.from_numpy(labels.astype(np.int64))
    return checked_labels(whole, images, 1 + int(labels.max(initial=0)), where)

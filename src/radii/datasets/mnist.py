"""MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey (LeCun, Cortes & Burges)."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from radii import plugins
from radii.datasets._files import Published, gunzip, locate, md5_of
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, checked_labels

Hashes = dict[Split, tuple[str, str]]
"""MD5 of the images and of the labels."""

MOST_DIMENSIONS = 4
SAME_FILE_NAMES = ("mnist", "fashion_mnist")


@dataclass(frozen=True, kw_only=True, eq=False)
class Mnist(Dataset):
    """Two gzipped idx files per split: images and labels."""

    shape: ClassVar[Shape] = (1, 28, 28)
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")
    mirror: ClassVar[str] = "https://ossci-datasets.s3.amazonaws.com/mnist"
    md5: ClassVar[Hashes] = {
        "train": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
        "test": ("9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
    }

    def split(self, split: Split) -> InMemory:
        paths = locate(self.name, self.data, self._files(split))
        for path in paths:
            self._check_publisher(path)
        images, labels = (read_idx(path) for path in paths)
        if images.shape[1:] != self.shape[1:] or labels.ndim != 1:
            got = f"{list(images.shape)} images and {list(labels.shape)} labels"
            raise DataError(f"{paths[0]} and {paths[1].name} hold {got}, expected [n, 28, 28] and [n]")
        labels = checked_labels(labels, len(images), self.classes, f"{self.name} {split} in {paths[0].parent}")
        return InMemory(images[:, None], labels)

    def _files(self, split: Split) -> list[Published]:
        prefix = {"train": "train", "test": "t10k"}[split]
        hashes = zip(("images-idx3", "labels-idx1"), self.md5[split], strict=True)
        return [Published(f"{self.mirror}/{prefix}-{content}-ubyte.gz", md5) for content, md5 in hashes]

    def _check_publisher(self, path: Path) -> None:
        """Raise a DataError for a file of another dataset; the names are the same, only the hashes differ."""
        md5 = md5_of(path)
        for name in SAME_FILE_NAMES:
            if name == self.name:
                continue
            published = cast(type[Mnist], plugins.find("datasets", name, Mnist)).md5
            if any(md5 in hashes for hashes in published.values()):
                raise DataError(
                    f"{path} is a file of {name}, expected {self.name}'s: put the files of {self.name} into "
                    f"a folder {self.name}, and name the folder above it",
                    "data",
                )


def read_idx(path: Path) -> Tensor:
    """Read the bytes of a gzipped idx file in the shape that its header states."""
    content = gunzip(path)
    dimensions = content[3] if len(content) > 4 and content[:3] == b"\0\0\x08" else 0
    header = 4 + 4 * dimensions
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4)]
    if not 0 < dimensions <= MOST_DIMENSIONS or len(content) != header + math.prod(sizes):
        raise DataError(f"{path} is not a whole idx file of bytes: fetch it again")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=header).reshape(sizes).copy())

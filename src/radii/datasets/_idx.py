"""The idx format of MNIST and its kin."""

import gzip
import math
import zlib
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from radii.datasets.base import DataError, Dataset, InMemory, Published, Split, checked_labels, locate


class Idx(Dataset):
    """A dataset of two idx files a split: images and labels."""

    shape = (1, 28, 28)
    classes = 10
    files: ClassVar[dict[Split, tuple[Published, Published]]]

    def split(self, split: Split) -> InMemory:
        images, labels = (read_idx(path) for path in locate(self, self.files[split]))
        if len(images) != len(labels):
            raise DataError(f"{self.name} {split}: {len(images)} images but {len(labels)} labels")
        return InMemory(images[:, None], checked_labels(labels, self.classes, f"{self.name} {split}"))


def read_idx(path: Path) -> Tensor:
    """The bytes of a gzipped idx file in the shape that its header states."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is truncated or corrupt ({error}): fetch it again") from error
    dimensions = content[3] if len(content) > 4 and content[:3] == b"\0\0\x08" else 0
    header = 4 + 4 * dimensions
    sizes = [int(size) for size in np.frombuffer(content[4:header], ">u4")]
    if not dimensions or len(content) != header + math.prod(sizes):
        raise DataError(f"{path} is not a whole idx file of bytes: fetch it again")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=header).reshape(sizes).copy())

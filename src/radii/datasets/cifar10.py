"""CIFAR-10: 50,000 + 10,000 photographs in 10 classes, 32x32 (Krizhevsky 2009)."""

import gzip
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from radii.datasets._files import CHUNK, Limited, Published, folders, locate, most_unpacked
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, checked_labels
from radii.published_datasets import SIZES
from radii.smoothing.normalisation import CIFAR10, Normalisation

Files = dict[Split, tuple[str, ...]]

PIXELS = 3 * 32 * 32
MOST_MEMBERS = 1000
_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"


@dataclass(frozen=True, kw_only=True, eq=False)
class Cifar10(Dataset):
    """The binary version, from its folder or from the archive in place.

    A record is the label bytes, of which the last counts, then the planes of red, green and blue.
    """

    shape: ClassVar[Shape] = (3, 32, 32)
    class_names: ClassVar[tuple[str, ...]] = tuple(_NAMES.split())
    normalisation: ClassVar[Normalisation] = CIFAR10
    counts: ClassVar[dict[Split, int]] = {"train": SIZES["cifar10"].train, "test": SIZES["cifar10"].test}
    archive: ClassVar[Published] = Published(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        unpacked="cifar-10-batches-bin",
    )
    files: ClassVar[Files] = {
        "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test": ("test_batch.bin",),
    }
    label_bytes: ClassVar[int] = 1

    def split(self, split: Split) -> InMemory:
        names = self.files[split]
        expected = self.counts[split] // len(names) * (self.label_bytes + PIXELS)
        contents = self._contents(names, expected)
        for where, content in contents.items():
            if len(content) != expected:
                raise DataError(f"{where} has {len(content)} bytes, expected {expected}: fetch it again")
        parts = [np.frombuffer(content, np.uint8) for content in contents.values()]
        records = torch.from_numpy(np.concatenate(parts)).view(-1, self.label_bytes + PIXELS)
        where = f"{self.name} {split} in {next(iter(contents))}"
        labels = checked_labels(records[:, self.label_bytes - 1], len(records), self.classes, where)
        images = records[:, self.label_bytes :].contiguous().view(-1, *self.shape)
        return InMemory(images, labels, augmented=split == "train")

    def _contents(self, names: Sequence[str], size: int) -> dict[str, bytes]:
        """Read the files, at most one byte beyond `size` of each."""
        for folder in folders(self.name, self.data):
            for inner in (folder / self.archive.unpacked, folder):
                if all((inner / name).is_file() for name in names):
                    return {str(inner / name): _read_beginning(inner / name, size + 1) for name in names}
        (archive,) = locate(self.name, self.data, [self.archive])
        return read_members(archive, [f"{self.archive.unpacked}/{name}" for name in names], size + 1)


def _read_beginning(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def read_members(archive: Path, names: Sequence[str], most: int) -> dict[str, bytes]:
    """Read the first `most` bytes of files in a gzipped tar archive in one pass; nothing is unpacked to the disk."""
    contents = {}
    try:
        with gzip.open(archive) as unzipped:
            stream = Limited(unzipped, most_unpacked(archive.stat().st_size), archive)
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in islice(tar, MOST_MEMBERS):
                    if member.name in names and (file := tar.extractfile(member)):
                        contents[member.name] = file.read(most)
            # The checksum comes at the end, after the last byte that tar reads.
            while stream.read(CHUNK):
                pass
    except DataError:
        raise
    except Exception as error:
        # Gzip, zlib and tar each raise different errors, and tar also those of its parser.
        raise DataError(
            f"{archive} is truncated or corrupt ({type(error).__name__}: {error}): fetch it again"
        ) from error
    if missing := [name for name in names if name not in contents]:
        raise DataError(f"{archive} does not hold {missing[0]}: fetch the binary version again")
    return {f"{archive}: {name}": contents[name] for name in names}

"""The binary version of CIFAR, from its folder or from the archive in place."""

import gzip
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from radii.datasets._bounded import CHUNK, Limited, most_unpacked
from radii.datasets._published import Published, folders, locate
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, checked_labels
from radii.published_datasets import SIZES

Files = dict[Split, tuple[str, ...]]

PIXELS = 3 * 32 * 32
MOST_MEMBERS = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class CifarBinary(Dataset):
    """A dataset of records: label bytes, of which the last counts, then the planes of red, green and blue."""

    shape: ClassVar[Shape] = (3, 32, 32)
    counts: ClassVar[dict[Split, int]] = {"train": SIZES["cifar10"].train, "test": SIZES["cifar10"].test}
    archive: ClassVar[Published]
    files: ClassVar[Files]
    label_bytes: ClassVar[int]

    def split(self, split: Split) -> InMemory:
        names = self.files[split]
        expected = self.counts[split] // len(names) * (self.label_bytes + PIXELS)
        contents = self._contents(names, expected)
        for where, content in contents.items():
            if len(content) != expected:
                raise DataError(f"{where} has {len(content)} bytes, expected {expected}: fetch it again")
        parts = [np.frombuffer(content, np.uint8) for content in contents.values()]
        records = torch.from_numpy(np.concatenate(parts)).view(-1, self.label_bytes + PIXELS)
        labels = checked_labels(
            records[:, self.label_bytes - 1],
            len(records),
            self.classes,
            f"{self.name} {split} in {next(iter(contents))}",
        )
        images = records[:, self.label_bytes :].contiguous().view(-1, *self.shape)
        return InMemory(images, labels, augmented=split == "train")

    def _contents(self, names: Sequence[str], size: int) -> dict[str, bytes]:
        """The files' content, of which no more than a byte beyond `size` is read."""
        for folder in folders(self):
            for inner in (folder / self.archive.unpacked, folder):
                if all((inner / name).is_file() for name in names):
                    return {str(inner / name): _beginning(inner / name, size + 1) for name in names}
        (archive,) = locate(self, [self.archive])
        return read_members(archive, [f"{self.archive.unpacked}/{name}" for name in names], size + 1)


def _beginning(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def read_members(archive: Path, names: Sequence[str], most: int) -> dict[str, bytes]:
    """The first bytes of files of a gzipped tar archive in one pass; nothing is unpacked to the disk."""
    found = {}
    try:
        with gzip.open(archive) as unzipped:
            stream = Limited(unzipped, most_unpacked(archive.stat().st_size), archive)
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in islice(tar, MOST_MEMBERS):
                    if member.name in names and (file := tar.extractfile(member)):
                        found[member.name] = file.read(most)
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
    if missing := [name for name in names if name not in found]:
        raise DataError(f"{archive} does not hold {missing[0]}: fetch the binary version again")
    return {f"{archive}: {name}": found[name] for name in names}

"""The binary version of CIFAR, from its folder or from the archive in place."""

import gzip
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from radii.datasets._published import Published, folders, locate
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, checked_labels

Files = dict[Split, tuple[str, ...]]

PIXELS = 3 * 32 * 32


@dataclass(frozen=True, kw_only=True, eq=False)
class CifarBinary(Dataset):
    """A dataset of records: label bytes, of which the last counts, then the planes of red, green and blue."""

    shape: ClassVar[Shape] = (3, 32, 32)
    counts: ClassVar[dict[Split, int]] = {"train": 50_000, "test": 10_000}
    archive: ClassVar[Published]
    files: ClassVar[Files]
    label_bytes: ClassVar[int]

    def split(self, split: Split) -> InMemory:
        contents = self._contents(self.files[split])
        expected = self.counts[split] // len(contents) * (self.label_bytes + PIXELS)
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

    def _contents(self, names: Sequence[str]) -> dict[str, bytes]:
        for folder in folders(self):
            for inner in (folder / self.archive.unpacked, folder):
                if all((inner / name).is_file() for name in names):
                    return {str(inner / name): (inner / name).read_bytes() for name in names}
        (archive,) = locate(self, [self.archive])
        return read_members(archive, [f"{self.archive.unpacked}/{name}" for name in names])


def read_members(archive: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Files of a gzipped tar archive in one pass; nothing is unpacked to the disk."""
    found = {}
    try:
        with gzip.open(archive) as unzipped, tarfile.open(fileobj=unzipped, mode="r|") as tar:
            for member in tar:
                if member.name in names and (file := tar.extractfile(member)):
                    found[member.name] = file.read()
            # The checksum comes at the end, after the last thing that tar looks at.
            while unzipped.read(1 << 20):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError) as error:
        raise DataError(f"{archive} is truncated or corrupt ({error}): fetch it again") from error
    if missing := [name for name in names if name not in found]:
        raise DataError(f"{archive} does not hold {missing[0]}: fetch the binary version again")
    return {f"{archive}: {name}": found[name] for name in names}

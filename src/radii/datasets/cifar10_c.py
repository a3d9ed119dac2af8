"""CIFAR-10-C: the CIFAR-10 test images under 19 kinds of corruption at 5 severities (Hendrycks & Dietterich 2019)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from radii.datasets._files import existing_folder, read_npy
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, in_memory, named_data
from radii.datasets.cifar10 import Cifar10
from radii.fields import option
from radii.published_datasets import SEVERITIES, all_kinds
from radii.smoothing.normalisation import CIFAR10, Normalisation

UNPACKED = "CIFAR-10-C"
RADII_RECORD = "radii-corrupted.json"
"""The file that `radii corrupt` writes beside its images; the published set has none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cifar10C(Dataset):
    """The published folder CIFAR-10-C: KIND.npy and labels.npy. `severity` 0 is all five, one after the other."""

    shape: ClassVar[Shape] = Cifar10.shape
    class_names: ClassVar[tuple[str, ...]] = Cifar10.class_names
    normalisation: ClassVar[Normalisation] = CIFAR10

    kind: str = option("gaussian_noise", choices=all_kinds("cifar10_c"))
    severity: int = option(0, ge=0, le=5)

    def split(self, split: Split) -> InMemory:
        expect_test(self.name, split)
        return read_kind(self._folder(), self.kind, self.severity, self.shape, self.classes)

    def _folder(self) -> Path:
        named = existing_folder(named_data(self, f"the published folder {UNPACKED}"))
        for folder in (named / UNPACKED, named / self.name, named):
            if (folder / "labels.npy").is_file():
                if (folder / RADII_RECORD).is_file():
                    raise DataError(f"{folder} was made by radii, it is not the published {UNPACKED}: use 'corrupted'")
                return folder
        raise DataError(f"{named} has no folder {UNPACKED} with labels.npy: unpack the published archive there", "data")


def expect_test(name: str, split: Split) -> None:
    """Raise a DataError for the training split of a dataset that has none."""
    if split != "test":
        raise DataError(f"{name} has no {split} split, only test images: train on the dataset that it corrupts")


def read_kind(folder: Path, kind: str, severity: int, shape: Shape, classes: int) -> InMemory:
    """Read the images of a kind of corruption at a severity, or with 0 all of them, one severity after the other."""
    for file in (folder / f"{kind}.npy", folder / "labels.npy"):
        if not file.is_file():
            raise DataError(f"there is no file {file}: expected one .npy file for each kind, and labels.npy", "data")
    images, labels = read_npy(folder / f"{kind}.npy"), read_npy(folder / "labels.npy")
    where = f"{folder / kind}.npy"
    if labels.ndim != 1 or len(labels) % len(SEVERITIES) or len(labels) != len(images):
        raise DataError(f"{where} has {len(images)} images and labels.npy has {labels.shape}, expected five severities")
    count = len(labels) // len(SEVERITIES)
    chosen = slice(None) if severity == 0 else slice((severity - 1) * count, severity * count)
    return in_memory(images[chosen], labels[chosen], shape, classes, where)

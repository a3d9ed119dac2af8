"""CIFAR-10-C: the CIFAR-10 test images under 19 kinds of corruption at 5 severities (Hendrycks & Dietterich 2019)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from radii.datasets._blocks import OWN, only_test, read_kind
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, existing_folder, named_data
from radii.datasets.cifar10 import Cifar10
from radii.fields import option
from radii.published_datasets import all_kinds
from radii.smoothing.normalisation import CIFAR10, Normalisation

UNPACKED = "CIFAR-10-C"


@dataclass(frozen=True, kw_only=True, eq=False)
class Cifar10C(Dataset):
    """The published folder CIFAR-10-C: KIND.npy and labels.npy. `severity` 0 is all five, one after the other."""

    shape: ClassVar[Shape] = Cifar10.shape
    class_names: ClassVar[tuple[str, ...]] = Cifar10.class_names
    normalisation: ClassVar[Normalisation] = CIFAR10

    kind: str = option("gaussian_noise", choices=all_kinds("cifar10_c"))
    severity: int = option(0, ge=0, le=5)

    def split(self, split: Split) -> InMemory:
        only_test(self.name, split)
        return read_kind(self._folder(), self.kind, self.severity, self.shape, self.classes)

    def _folder(self) -> Path:
        named = existing_folder(named_data(self, f"the published folder {UNPACKED}"))
        for folder in (named / UNPACKED, named / self.name, named):
            if (folder / "labels.npy").is_file():
                if (folder / OWN).is_file():
                    raise DataError(f"{folder} was made by radii, it is not the published {UNPACKED}: use 'corrupted'")
                return folder
        raise DataError(f"{named} has no folder {UNPACKED} with labels.npy: unpack the published archive there", "data")

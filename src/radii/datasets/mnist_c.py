"""MNIST-C: MNIST under 15 kinds of corruption, and as it is (Mu & Gilmer 2019)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from radii.datasets._files import existing_folder, read_npy
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, in_memory, named_data
from radii.datasets.mnist import Mnist
from radii.fields import option
from radii.published_datasets import all_kinds


@dataclass(frozen=True, kw_only=True, eq=False)
class MnistC(Dataset):
    """The published folder mnist_c: KIND/test_images.npy and KIND/test_labels.npy, and the same for train."""

    shape: ClassVar[Shape] = (1, 28, 28)
    class_names: ClassVar[tuple[str, ...]] = Mnist.class_names

    kind: str = option("identity", choices=all_kinds("mnist_c"))

    def split(self, split: Split) -> InMemory:
        folder = self._folder()
        images, labels = (folder / f"{split}_{content}.npy" for content in ("images", "labels"))
        if missing := [file for file in (images, labels) if not file.is_file()]:
            raise DataError(f"there is no file {missing[0]}: unpack the published archive again", "data")
        return in_memory(read_npy(images), read_npy(labels), self.shape, self.classes, str(images))

    def _folder(self) -> Path:
        named = existing_folder(named_data(self, "the published folder mnist_c"))
        for folder in (named / self.name / self.kind, named / self.kind):
            if folder.is_dir():
                return folder
        raise DataError(f"{named} has no folder {self.name}/{self.kind}: unpack the published archive there", "data")

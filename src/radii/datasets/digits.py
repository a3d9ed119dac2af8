"""Digits: 1,347 + 450 handwritten digits, 8x8 grey, shipped with the package (Alpaydin & Kaynak 1998)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from radii.datasets._files import read_npz
from radii.datasets.base import Dataset, InMemory, Shape, Split

FILE = Path(__file__).with_name("digits.npz")
"""The 1,797 images that scikit-learn also ships: UCI, Optical Recognition of Handwritten Digits, CC BY 4.0."""
LEVELS = 16
EVERY = 4
"""Every fourth image, from the first on, is a test image."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits(Dataset):
    shape: ClassVar[Shape] = (1, 8, 8)
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    @property
    def data(self) -> None:
        """None: the images come with the package."""

    def split(self, split: Split) -> InMemory:
        arrays = read_npz(FILE)
        images = torch.from_numpy(arrays["images"]).float().div_(LEVELS)[:, None]
        labels = torch.from_numpy(arrays["labels"]).long()
        chosen = (torch.arange(len(labels)) % EVERY == 0) == (split == "test")
        return InMemory(images[chosen], labels[chosen])

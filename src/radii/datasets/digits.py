"""Digits: 1,347 + 450 handwritten digits, 8x8 grey, embedded in scikit-learn (Alpaydin & Kaynak 1998)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from sklearn.datasets import load_digits

from radii.datasets.base import Dataset, InMemory, Shape, Split

LEVELS = 16
EVERY = 4
"""Every fourth image, from the first on, is a test image."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits(Dataset):
    shape: ClassVar[Shape] = (1, 8, 8)
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    @property
    def data(self) -> None:
        """It has no files."""

    def split(self, split: Split) -> InMemory:
        embedded = load_digits()
        images = torch.from_numpy(embedded.images).float().div_(LEVELS)[:, None]
        labels = torch.from_numpy(embedded.target).long()
        chosen = (torch.arange(len(labels)) % EVERY == 0) == (split == "test")
        return InMemory(images[chosen], labels[chosen])

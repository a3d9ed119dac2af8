"""The images of a split: in memory, on a device, or some of another split; their augmentation and their digests."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from radii.errors import ParameterError
from radii.smoothing.streams import RowGenerator

Split = Literal["train", "test"]
"""The splits of a published dataset."""
Shape = tuple[int, int, int]
"""Channels, height, width of an image."""

PADDING = 4


class DataError(ParameterError):
    """A data file is missing, truncated or of another format than expected."""


class Images(ABC):
    """The images of a split with their labels."""

    labels: Tensor
    """[image], int64."""

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Return these images as float32 in [0, 1], contiguous [batch, channel, height, width].

        A training split is augmented if `rng` is given; the same `rng` gives the same pixels.
        """

    def load(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Return in the host's memory, in as few bytes as possible, what `finish` turns into the same batch."""
        return self.batch(indices, rng)

    def finish(self, loaded: Tensor) -> Tensor:
        """Make the batch from what `load` returned, on the device that it has been copied to."""
        return as_floats(loaded)

    def to(self, device: torch.device, most_bytes: int | None = None) -> "Images":
        """Return these images with their pixels on the device, if they are in memory and at most `most_bytes`."""
        return self

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the labels; subclasses add the pixels where these are quick to read."""
        return _digest(self.labels)

    def image_digest(self, index: int) -> str:
        """Return the digest of one image with its label, independent of how it is stored."""
        return image_digest(self.batch(torch.tensor([index]))[0], int(self.labels[index]))


@dataclass(frozen=True, eq=False)
class InMemory(Images):
    """A split held as one tensor: bytes, or floats already in [0, 1]."""

    images: Tensor
    labels: Tensor
    augmented: bool = False
    flips: bool = True
    """Whether augmentation also flips images; false where left and right mean different classes."""

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return as_floats(self.load(indices, rng))

    def load(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Return the pixels as stored: bytes take a quarter of the bandwidth of floats."""
        chosen = self.images.index_select(0, indices)
        return crop_and_flip(chosen, rng, self.flips) if self.augmented and rng is not None else chosen

    def to(self, device: torch.device, most_bytes: int | None = None) -> Images:
        if device.type == "cpu" or (most_bytes is not None and self.images.nbytes > most_bytes):
            return self
        return OnDevice(self, self.images.to(device))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all pixels, as stored, and labels."""
        return _digest(self.images, self.labels)


@dataclass(frozen=True, eq=False)
class OnDevice(Images):
    """A split whose pixels are on a device: a batch copies only indices and crop positions there."""

    host: InMemory
    images: Tensor

    @property
    def labels(self) -> Tensor:  # type: ignore[override]
        return self.host.labels

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return self.finish(self.load(indices, rng).to(self.images.device))

    def load(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Return the indices of the images and, if they are augmented, the crop of each: [1 or 4, batch]."""
        if not self.host.augmented or rng is None:
            return indices[None]
        return torch.cat([indices[None], draw_crops(len(indices), rng, self.host.flips)])

    def finish(self, loaded: Tensor) -> Tensor:
        chosen = self.images.index_select(0, loaded[0])
        return as_floats(crop(chosen, loaded[1:]) if len(loaded) > 1 else chosen)

    @cached_property
    def digest(self) -> str:
        return self.host.digest


@dataclass(frozen=True, eq=False)
class Subset(Images):
    """Some images of a split, in the order of the split."""

    whole: Images
    positions: Tensor

    @property
    def labels(self) -> Tensor:  # type: ignore[override]
        return self.whole.labels[self.positions]

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return self.whole.batch(self.positions[indices], rng)

    def load(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return self.whole.load(self.positions[indices], rng)

    def finish(self, loaded: Tensor) -> Tensor:
        return self.whole.finish(loaded)

    def to(self, device: torch.device, most_bytes: int | None = None) -> Images:
        return Subset(self.whole.to(device, most_bytes), self.positions)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the whole split's digest and the positions in it."""
        return hashlib.sha256(f"{self.whole.digest} {_digest(self.positions)}".encode()).hexdigest()


def image_digest(pixels: Tensor, label: int) -> str:
    """Return 16 hex digits of the SHA-256 of an image's float32 pixels [channel, height, width] and its label."""
    return _digest(pixels.to("cpu", torch.float32), torch.tensor(label))[:16]


def _digest(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def as_floats(pixels: Tensor) -> Tensor:
    """Return bytes as floats in [0, 1], and floats unchanged."""
    if pixels.is_floating_point():
        return pixels
    # Divide by a tensor: for a plain number CUDA multiplies by the reciprocal, which rounds some bytes differently.
    return pixels.float().div_(torch.full((), 255.0, device=pixels.device))


def spread_evenly(indices: Sequence[int], count: int) -> list[int]:
    """Return `count` of the indices, spread evenly because a split may be sorted by class; all if there are fewer."""
    count = min(count, len(indices))
    return [indices[number * len(indices) // count] for number in range(count)]


def spread_images(images: Images, count: int) -> Tensor:
    """Return `count` images spread evenly over a split, which may be sorted by class; all if it has fewer."""
    return images.batch(torch.tensor(spread_evenly(range(len(images)), count)))


def crop_and_flip(images: Tensor, rng: torch.Generator, flips: bool = True) -> Tensor:
    """Cut each image out of its zero-padded image at a random position, and flip it randomly if `flips`.

    The result is contiguous, as noise is drawn, so adding noise is one pass over memory; a channels-last model reorders
    the sum once.
    """
    return crop(images, draw_crops(len(images), rng, flips))


def draw_crops(count: int, rng: torch.Generator, flips: bool = True) -> Tensor:
    """Draw top, left and flip (0 or 1) of `count` crops: [3, crop]."""
    if isinstance(rng, RowGenerator):
        corners, flip = rng.integers(count, 2, 2 * PADDING + 1).T, rng.integers(count, 1, 2).squeeze(1)
    else:
        corners = torch.randint(0, 2 * PADDING + 1, (2, count), generator=rng)
        flip = torch.rand(count, generator=rng) < 0.5
    return torch.cat([corners, (flip if flips else torch.zeros_like(flip)).long()[None]])


def crop(images: Tensor, crops: Tensor) -> Tensor:
    """Cut each image out of its zero-padded image as `draw_crops` says, on the device of both."""
    count, channels, height, width = images.shape
    top, left, flip = crops.unbind()
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = left[:, None] + torch.arange(width, device=images.device)
    columns = torch.where(flip[:, None] == 1, columns.flip(1), columns)
    padded = F.pad(images, (PADDING,) * 4)
    # One index per pixel for all channels is several times faster than separate indices for rows and columns.
    source = (rows[:, :, None] * padded.shape[3] + columns[:, None, :]).view(count, 1, -1)
    return padded.flatten(2).gather(2, source.expand(-1, channels, -1)).view(images.shape)


def checked_labels(labels: Tensor, images: int, classes: int, where: str) -> Tensor:
    """Return labels as int64, one for each image and all within the classes, or raise a DataError."""
    if not images or len(labels) != images:
        raise DataError(f"{where} has {images} images and {len(labels)} labels, expected one for each image")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise DataError(f"{where} has labels from {low} to {high}, expected 0 to {classes - 1}")
    return labels.long()


def in_memory(images: NDArray[Any], labels: NDArray[Any], shape: Shape, classes: int, where: str) -> InMemory:
    """Return a split of bytes [n, height, width, channel], or [n, height, width] in grey, and whole numbers [n]."""
    channels, height, width = shape
    if channels == 1 and images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.shape[1:] != (height, width, channels):
        expected = f"uint8 [n, {height}, {width}, {channels}]"
        raise DataError(f"{where} is {images.dtype} {list(images.shape)}, expected {expected}")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"the labels of {where} are {labels.dtype} {list(labels.shape)}, expected whole numbers [n]")
    pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    whole = torch.from_numpy(labels.astype(np.int64))
    return InMemory(pixels, checked_labels(whole, len(pixels), classes, where))

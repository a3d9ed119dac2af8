"""Images as Python programs have them: tensors, arrays, pictures, pairs of arrays, torch datasets and data loaders."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils import data as torch_data

from radii.datasets._pictures import EIGHT_BITS, SIXTEEN_BITS, pixels_of
from radii.datasets.base import DataError, Images, InMemory, as_floats, checked_labels

CHANNELS = (1, 3)
GREY = ("1", "L", "LA", "La", *SIXTEEN_BITS)
PICTURE = ("image", "pixel_values", "img")
LABEL = ("label", "labels")
"""The keys of a sample that is a mapping, as those of Hugging Face are."""
KINDS = "a tensor [channel, height, width], an array [height, width, channel] of bytes, or a PIL image"


class Samples(Protocol):
    """Images with labels, by their number."""

    def __len__(self) -> int: ...

    @property
    def digest(self) -> str | None:
        """The digest of all images, where that is quick."""

    def sample(self, index: int) -> tuple[Tensor, int]:
        """An image, pixels in [0, 1], [channel, height, width], with its label."""


def as_image(given: object) -> Tensor:
    """One image as a tensor [channel, height, width]; bytes become floats in [0, 1].

    An array of three dimensions whose last is 1 or 3 is [height, width, channel]; a tensor is, if it holds bytes.
    """
    if isinstance(given, Image.Image):
        return _of_picture(given)
    if isinstance(given, np.ndarray):
        given = _channels_first(_tensor(given, "the image"))
    elif isinstance(given, Tensor) and given.dtype == torch.uint8:
        given = _channels_first(given)
    if not isinstance(given, Tensor):
        raise ValueError(f"the image is a {type(given).__name__}, expected {KINDS}")
    return as_floats(given) if given.dtype == torch.uint8 else given


def _channels_first(pixels: Tensor) -> Tensor:
    """[h, w], [h, w, c] or [c, h, w] as [c, h, w]; also of a batch of these."""
    if pixels.ndim == 2:
        return pixels[None]
    first = pixels.ndim - 3
    if pixels.ndim > 2 and pixels.shape[-1] in CHANNELS and pixels.shape[first] not in CHANNELS:
        return pixels.movedim(-1, first)
    return pixels


def _of_picture(picture: Image.Image) -> Tensor:
    if picture.mode not in (*EIGHT_BITS, *SIXTEEN_BITS):
        raise ValueError(f"the picture is of the kind {picture.mode}, expected 8 or 16 bits per channel: convert it")
    channels = 1 if picture.mode in GREY else 3
    pixels = torch.from_numpy(pixels_of(picture, channels))
    return pixels.reshape(picture.height, picture.width, channels).permute(2, 0, 1)


def samples_of(given: object) -> Samples:
    """The images of a torch Dataset, a DataLoader that does not shuffle, or a pair of arrays or tensors."""
    if isinstance(given, Images):
        return _OfImages(given)
    if isinstance(given, torch_data.DataLoader):
        return _OfLoader(_in_order(given))
    if isinstance(given, tuple | list) and len(given) == 2 and all(map(_is_array, given)):
        return _OfImages(_pair(*given))
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not isinstance(given, str | tuple | list):
        return _OfDataset(given)
    raise DataError(
        f"the dataset is a {type(given).__name__}, expected a torch Dataset with numbered images, a DataLoader, "
        "a pair (images, labels) of arrays, or the name of a dataset",
        "dataset",
    )


@dataclass(frozen=True)
class _OfImages:
    images: Images

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def digest(self) -> str | None:
        return self.images.digest

    def sample(self, index: int) -> tuple[Tensor, int]:
        return self.images.batch(torch.tensor([index]))[0], int(self.images.labels[index])


@dataclass(frozen=True)
class _OfDataset:
    """A dataset whose samples are pairs, or mappings, of an image and a label."""

    dataset: Any
    digest: None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def sample(self, index: int) -> tuple[Tensor, int]:
        image, label = _parts(self.dataset[index], index)
        return as_image(image), _label(label, index)


@dataclass(frozen=True)
class _OfLoader:
    """The images of a loader's dataset, each as the loader's collate function makes it."""

    loader: Any
    digest: None = None

    def __len__(self) -> int:
        return len(self.loader.dataset)

    def sample(self, index: int) -> tuple[Tensor, int]:
        found = self.loader.dataset[index]
        if self.loader.batch_size is None:
            image, label = _parts(self.loader.collate_fn(found), index)
        else:
            images, labels = _parts(self.loader.collate_fn([found]), index)
            image, label = images[0], labels[0]
        return as_image(image), _label(label, index)


def _in_order(loader: "torch_data.DataLoader[Any]") -> "torch_data.DataLoader[Any]":
    if isinstance(loader.dataset, torch_data.IterableDataset):
        raise DataError(
            "the loader's dataset is iterable, expected one whose images have numbers: a certificate names its image",
            "dataset",
        )
    by_batch = loader.batch_sampler
    sampler = loader.sampler if by_batch is None else getattr(by_batch, "sampler", None)
    if type(sampler) is not torch_data.SequentialSampler or type(by_batch) not in (type(None), torch_data.BatchSampler):
        raise DataError(
            "the loader shuffles or chooses images, so their numbers change: "
            "use shuffle=False and no sampler, or give the dataset itself",
            "dataset",
        )
    return loader


def _parts(found: object, index: int) -> tuple[Any, Any]:
    if isinstance(found, Mapping):
        picture, label = (next((key for key in keys if key in found), None) for keys in (PICTURE, LABEL))
        if picture is not None and label is not None:
            return found[picture], found[label]
    elif isinstance(found, tuple | list) and len(found) >= 2:
        return found[0], found[1]
    raise DataError(
        f"image {index} of the dataset is a {type(found).__name__}, expected a pair (image, label) "
        f"or a mapping with {PICTURE[0]!r} and {LABEL[0]!r}",
        "dataset",
    )


def _label(label: Any, index: int) -> int:
    try:
        plain: Any = label.item() if isinstance(label, Tensor | np.generic) else label
        return operator.index(plain)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"image {index} of the dataset has the label {label!r}, expected a whole number", "dataset"
        ) from error


def _is_array(given: object) -> bool:
    return isinstance(given, np.ndarray | Tensor | list | tuple)


def _tensor(given: Any, name: str) -> Tensor:
    """An array, a tensor or a list of numbers as a tensor."""
    try:
        if isinstance(given, list | tuple) and given and isinstance(given[0], Tensor):
            return torch.stack(list(given))
        return given if isinstance(given, Tensor) else torch.from_numpy(np.ascontiguousarray(given))
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} cannot be made one array of numbers: {error}", "dataset") from error


def _pair(images: Any, labels: Any) -> InMemory:
    is_array = isinstance(images, np.ndarray)
    pixels = _tensor(images, "the images")
    if is_array and pixels.ndim == 3:
        pixels = pixels[:, None]
    elif is_array or pixels.dtype == torch.uint8:
        pixels = _channels_first(pixels)
    if pixels.ndim != 4 or 0 in pixels.shape:
        raise DataError(
            f"the images have the shape {list(pixels.shape)}, expected [n, c, h, w] or [n, h, w, c]", "dataset"
        )
    classes = _tensor(labels, "the labels")
    if classes.ndim != 1 or classes.is_floating_point():
        raise DataError(f"the labels are {classes.dtype} {list(classes.shape)}, expected whole numbers [n]", "dataset")
    highest = int(classes.max()) + 1 if len(classes) else 0
    return InMemory(_scaled(pixels).cpu(), checked_labels(classes.cpu(), len(pixels), highest, "the dataset"))


def _scaled(pixels: Tensor) -> Tensor:
    if pixels.dtype == torch.uint8:
        return pixels.contiguous()
    if not pixels.is_floating_point():
        raise DataError(f"the images are {pixels.dtype}, expected uint8, or floats in [0, 1]", "dataset")
    low, high = float(pixels.min()), float(pixels.max())
    if not (low >= 0 and high <= 1):
        raise DataError(
            f"the images have pixels from {low:g} to {high:g}, expected floats in [0, 1]: scale them", "dataset"
        )
    return pixels.detach().float().contiguous()

"""Read images from Python objects: tensors, arrays, PIL images, pairs of arrays, torch datasets and data loaders."""

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

from radii.datasets._image_files import EIGHT_BITS, GREY_MODES, SIXTEEN_BITS, pixels_of
from radii.datasets._images import DataError, Images, InMemory, as_floats, checked_labels

CHANNELS = (1, 3)
IMAGE_KEYS = ("image", "pixel_values", "img")
LABEL_KEYS = ("label", "labels")
"""The keys of image and label in a sample that is a mapping, as in Hugging Face datasets."""
EXPECTED = "a tensor [channel, height, width], an array [height, width, channel] of bytes, or a PIL image"


class Samples(Protocol):
    """Numbered images with labels."""

    def __len__(self) -> int: ...

    @property
    def digest(self) -> str | None:
        """The digest of all images; None where it would be slow."""

    def sample(self, index: int) -> tuple[Tensor, int]:
        """Return an image, pixels in [0, 1], [channel, height, width], and its label."""


def as_image(image: object) -> Tensor:
    """Return one image as a tensor [channel, height, width]; bytes become floats in [0, 1].

    An array, or a tensor of bytes, whose last dimension is 1 or 3 is read as [height, width, channel].
    """
    if isinstance(image, Image.Image):
        return _from_pil(image)
    if isinstance(image, np.ndarray):
        image = _channels_first(_tensor(image, "the image"))
    elif isinstance(image, Tensor) and image.dtype == torch.uint8:
        image = _channels_first(image)
    if not isinstance(image, Tensor):
        raise ValueError(f"the image is a {type(image).__name__}, expected {EXPECTED}")
    return as_floats(image) if image.dtype == torch.uint8 else image


def _channels_first(pixels: Tensor) -> Tensor:
    """Return [h, w], [h, w, c] or [c, h, w] as [c, h, w]; also a batch of these."""
    if pixels.ndim == 2:
        return pixels[None]
    first = pixels.ndim - 3
    if pixels.ndim > 2 and pixels.shape[-1] in CHANNELS and pixels.shape[first] not in CHANNELS:
        return pixels.movedim(-1, first)
    return pixels


def _from_pil(image: Image.Image) -> Tensor:
    if image.mode not in (*EIGHT_BITS, *SIXTEEN_BITS):
        raise ValueError(f"the picture is of the kind {image.mode}, expected 8 or 16 bits per channel: convert it")
    channels = 1 if image.mode in GREY_MODES else 3
    pixels = torch.from_numpy(pixels_of(image, channels))
    return pixels.reshape(image.height, image.width, channels).permute(2, 0, 1)


def samples_of(dataset: object) -> Samples:
    """Return the images of a torch Dataset, a DataLoader that does not shuffle, or a pair of arrays or tensors."""
    if isinstance(dataset, Images):
        return _ImagesSamples(dataset)
    if isinstance(dataset, torch_data.DataLoader):
        _check_order(dataset)
        return _LoaderSamples(dataset)
    if isinstance(dataset, tuple | list) and len(dataset) == 2 and all(map(_is_array, dataset)):
        return _ImagesSamples(_from_pair(*dataset))
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, str | tuple | list):
        return _DatasetSamples(dataset)
    raise DataError(
        f"the dataset is a {type(dataset).__name__}, expected a torch Dataset with numbered images, a DataLoader, "
        "a pair (images, labels) of arrays, or the name of a dataset",
        "dataset",
    )


def class_names_of(dataset: object) -> tuple[str, ...]:
    """Return the names of the classes that a torch dataset states, as torchvision's and Hugging Face's do.

    Empty if it states none, or gives its labels other numbers.
    """
    while isinstance(dataset, torch_data.DataLoader | torch_data.Subset):
        dataset = dataset.dataset
    if getattr(dataset, "target_transform", None) is not None:
        return ()
    names: Any = getattr(dataset, "classes", None)
    features: Any = getattr(dataset, "features", None)
    if isinstance(features, Mapping):
        names = next((getattr(features[key], "names", None) for key in LABEL_KEYS if key in features), None)
    plain = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if plain else ()


@dataclass(frozen=True)
class _ImagesSamples:
    images: Images

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def digest(self) -> str | None:
        return self.images.digest

    def sample(self, index: int) -> tuple[Tensor, int]:
        return self.images.batch(torch.tensor([index]))[0], int(self.images.labels[index])


@dataclass(frozen=True)
class _DatasetSamples:
    """A torch dataset whose samples are pairs, or mappings, of an image and a label."""

    dataset: Any
    digest: None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def sample(self, index: int) -> tuple[Tensor, int]:
        image, label = _image_and_label(self.dataset[index], index)
        return as_image(image), _whole_label(label, index)


@dataclass(frozen=True)
class _LoaderSamples:
    """The images of a loader's dataset, each through the loader's collate function."""

    loader: Any
    digest: None = None

    def __len__(self) -> int:
        return len(self.loader.dataset)

    def sample(self, index: int) -> tuple[Tensor, int]:
        sample = self.loader.dataset[index]
        if self.loader.batch_size is None:
            image, label = _image_and_label(self.loader.collate_fn(sample), index)
        else:
            images, labels = _image_and_label(self.loader.collate_fn([sample]), index)
            image, label = images[0], labels[0]
        return as_image(image), _whole_label(label, index)


def _check_order(loader: "torch_data.DataLoader[Any]") -> None:
    """Raise a DataError for a loader that shuffles: a certificate names its image by number."""
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


def _image_and_label(sample: object, index: int) -> tuple[Any, Any]:
    if isinstance(sample, Mapping):
        image, label = (next((key for key in keys if key in sample), None) for keys in (IMAGE_KEYS, LABEL_KEYS))
        if image is not None and label is not None:
            return sample[image], sample[label]
    elif isinstance(sample, tuple | list) and len(sample) >= 2:
        return sample[0], sample[1]
    raise DataError(
        f"image {index} of the dataset is a {type(sample).__name__}, expected a pair (image, label) "
        f"or a mapping with {IMAGE_KEYS[0]!r} and {LABEL_KEYS[0]!r}",
        "dataset",
    )


def _whole_label(label: Any, index: int) -> int:
    try:
        plain: Any = label.item() if isinstance(label, Tensor | np.generic) else label
        return operator.index(plain)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"image {index} of the dataset has the label {label!r}, expected a whole number", "dataset"
        ) from error


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | Tensor | list | tuple)


def _tensor(values: Any, name: str) -> Tensor:
    """Return an array, a tensor or a list of numbers as a tensor."""
    try:
        if isinstance(values, list | tuple) and values and isinstance(values[0], Tensor):
            return torch.stack(list(values))
        return values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} cannot be made one array of numbers: {error}", "dataset") from error


def _from_pair(images: Any, labels: Any) -> InMemory:
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
    return InMemory(_check_pixels(pixels).cpu(), checked_labels(classes.cpu(), len(pixels), highest, "the dataset"))


def _check_pixels(pixels: Tensor) -> Tensor:
    """Return bytes, or float32 in [0, 1]; refuse other pixels."""
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

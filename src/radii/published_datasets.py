"""The published datasets in numbers: images, classes, kinds of corruption and severities. Does not import torch."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Size(NamedTuple):
    """The number of training images, test images and classes."""

    train: int
    test: int
    classes: int


SIZES: Mapping[str, Size] = {
    "mnist": Size(60_000, 10_000, 10),
    "fashion_mnist": Size(60_000, 10_000, 10),
    "cifar10": Size(50_000, 10_000, 10),
    "cifar100": Size(50_000, 10_000, 100),
    "svhn": Size(73_257, 26_032, 10),
    "gtsrb": Size(39_209, 12_630, 43),
    "digits": Size(1_347, 450, 10),
    "imagenet": Size(1_281_167, 50_000, 1_000),
    "mnist_c": Size(60_000, 10_000, 10),
    "cifar10_c": Size(0, 50_000, 10),
}
"""The size of every dataset; for corrupted images, of one kind of corruption with all severities."""
SEVERITIES = (1, 2, 3, 4, 5)
"""The severities of CIFAR-10-C and of `radii corrupt`; a file holds the images of all, one severity after the other."""
KINDS: Mapping[str, Mapping[str, str]] = {
    "cifar10_c": {
        **{"Gaussian": "gaussian_noise", "Shot": "shot_noise", "Impulse": "impulse_noise", "Defocus": "defocus_blur"},
        **{"Glass": "glass_blur", "Motion": "motion_blur", "Zoom": "zoom_blur", "Snow": "snow", "Frost": "frost"},
        **{"Fog": "fog", "Bright": "brightness", "Contrast": "contrast", "Elastic": "elastic_transform"},
        **{"Pixel": "pixelate", "JPEG": "jpeg_compression"},
    },
    "mnist_c": {
        **{"Bright": "brightness", "Line": "dotted_line", "Glass": "glass_blur", "Impulse": "impulse_noise"},
        **{"Rotate": "rotate", "Shear": "shear", "Spatter": "spatter", "Translate": "translate"},
        **{"Edges": "canny_edges", "Fog": "fog", "Motion": "motion_blur", "Scale": "scale", "Shot": "shot_noise"},
        **{"Stripe": "stripe", "Zigzag": "zigzag"},
    },
}
"""The kinds of corruption that the papers average over, by dataset: the file of each, by the paper's column."""
EXTRA_KINDS: Mapping[str, Sequence[str]] = {
    "cifar10_c": ("gaussian_blur", "saturate", "spatter", "speckle_noise"),
    "mnist_c": ("identity",),
}
"""Published files that are not in the papers' means."""


def all_kinds(dataset: str) -> tuple[str, ...]:
    """Return every published kind of corruption of a dataset."""
    return (*KINDS[dataset].values(), *EXTRA_KINDS[dataset])


def corrupted_sets(dataset: str) -> Sequence[Mapping[str, str]]:
    """Return the dataset specs of all kinds of corruption that the papers average over."""
    return [{"name": dataset, "kind": kind} for kind in KINDS[dataset].values()]


def is_corruption(name: str) -> bool:
    """Return whether a log of this name is about a kind of corruption."""
    return name in EXTRA_KINDS["cifar10_c"] or any(name in kinds.values() for kinds in KINDS.values())

"""CIFAR-100: 50,000 + 10,000 photographs in 100 fine classes, 32x32 (Krizhevsky 2009)."""

from typing import ClassVar

from radii.datasets._cifar import CifarBinary, Files
from radii.datasets._published import Published
from radii.smoothing.normalisation import CIFAR100


class Cifar100(CifarBinary):
    classes = 100
    normalisation = CIFAR100
    archive = Published(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        unpacked="cifar-100-binary",
    )
    files: ClassVar[Files] = {"train": ("train.bin",), "test": ("test.bin",)}
    # The coarse label, then the fine one.
    label_bytes = 2

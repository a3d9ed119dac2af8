"""CIFAR-10: 50,000 + 10,000 photographs in 10 classes, 32x32 (Krizhevsky 2009)."""

from dataclasses import dataclass
from typing import ClassVar

from radii.datasets._cifar import CifarBinary, Files
from radii.datasets._published import Published
from radii.smoothing.normalisation import CIFAR10, Normalisation

_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"


@dataclass(frozen=True, kw_only=True, eq=False)
class Cifar10(CifarBinary):
    class_names: ClassVar[tuple[str, ...]] = tuple(_NAMES.split())
    normalisation: ClassVar[Normalisation] = CIFAR10
    archive: ClassVar[Published] = Published(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        unpacked="cifar-10-batches-bin",
    )
    files: ClassVar[Files] = {
        "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test": ("test_batch.bin",),
    }
    label_bytes: ClassVar[int] = 1

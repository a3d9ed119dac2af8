"""MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey (LeCun, Cortes & Burges)."""

from dataclasses import dataclass
from typing import ClassVar

from radii.datasets._idx import Hashes, Idx


@dataclass(frozen=True, kw_only=True, eq=False)
class Mnist(Idx):
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")
    mirror: ClassVar[str] = "https://ossci-datasets.s3.amazonaws.com/mnist"
    md5: ClassVar[Hashes] = {
        "train": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
        "test": ("9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
    }

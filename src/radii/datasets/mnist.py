"""MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey (LeCun, Cortes & Burges)."""

from radii.datasets.base import Published
from radii.datasets._idx import Idx

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"


class Mnist(Idx):
    files = {
        "train": (
            Published(
                "train-images-idx3-ubyte.gz",
                f"{MIRROR}/train-images-idx3-ubyte.gz",
                "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            ),
            Published(
                "train-labels-idx1-ubyte.gz",
                f"{MIRROR}/train-labels-idx1-ubyte.gz",
                "md5:d53e105ee54ea40749a09fcbcd1e9432",
            ),
        ),
        "test": (
            Published(
                "t10k-images-idx3-ubyte.gz",
                f"{MIRROR}/t10k-images-idx3-ubyte.gz",
                "md5:9fb629c4189551a2d022fa330f9573f3",
            ),
            Published(
                "t10k-labels-idx1-ubyte.gz",
                f"{MIRROR}/t10k-labels-idx1-ubyte.gz",
                "md5:ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
    }

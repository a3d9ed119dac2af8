"""What certifies images in one process, and its form that other processes open again."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from radii.certifiers import Certifier
from radii.datasets.base import image_digest
from radii.experiment.certificates import Row
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.classifier import SmoothedClassifier

Item = TypeVar("Item")
Sample = tuple[int, Tensor, int]
"""An image with its number and its label."""


class Session(Protocol[Item]):
    """A classifier and its images, ready to certify."""

    @property
    def config(self) -> "SessionConfig[Item]":
        """What another process needs to open the same session: it can be pickled, compared and hashed."""

    def items(self, indices: Sequence[int]) -> Sequence[Item]:
        """What a worker needs beside `config` to certify these images, each read when it is asked for."""

    def certify(self, item: Item) -> Row:
        """The certificate of one image: the same in any process."""


class SessionConfig(Protocol[Item]):
    """What determines the certificates of a session."""

    def open(self) -> Session[Item]: ...

    def __hash__(self) -> int: ...


class RowStore(Protocol):
    """Where certificates are kept: a file, or memory."""

    def rows(self) -> Sequence[Row]: ...

    def append(self, row: Row) -> None: ...


def certified_row(
    classifier: SmoothedClassifier, certifier: Certifier, seed: int, label_known: bool, sample: Sample
) -> Row:
    """The certificate of one image as a row, computed by one thread; its noise is that of (seed, index)."""
    index, image, label = sample
    began = time.perf_counter()
    with one_thread():
        found = certifier.certify(classifier, image, NoiseAddress(seed, index), label if label_known else None)
    counts = {number: count for number, count in enumerate(found.counts) if count}
    seconds = time.perf_counter() - began
    digest = image_digest(image, label)
    return Row(index, label, found.prediction, found.radius, seconds, found.samples, counts, digest)


@contextmanager
def one_thread() -> Iterator[None]:
    """Forward passes on one thread: images are independent, while threads of one pass wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

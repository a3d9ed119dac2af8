"""What certifies images in one process, and its form that other processes open again."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from radii.certifiers import Certifier
from radii.certifiers.base import Voter
from radii.datasets.base import Images, image_digest
from radii.runs.certificates import Row
from radii.smoothing.addresses import NoiseAddress

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

    @property
    def classifier(self) -> Voter: ...

    def certify(self, item: Item, voter: Voter | None = None) -> Row:
        """The certificate of one image: the same in any process; `voter` votes in place of the classifier."""


@runtime_checkable
class Shippable(Protocol):
    """A session whose files are sent to a worker that cannot read them."""

    def shipment(self) -> "Shipment":
        """What opens the session elsewhere."""

    def sample(self, item: Any) -> Sample:
        """An item with its image."""


class Shipment(Protocol):
    """The files of a session; its images come with the tasks."""

    def open(self) -> Any: ...


class SessionConfig(Protocol[Item]):
    """What determines the certificates of a session."""

    def open(self) -> Session[Item]: ...

    def __hash__(self) -> int: ...


class ByIndex:
    """A session of a split: its items are indices, or samples where a worker cannot read the images."""

    images: Images

    def items(self, indices: Sequence[int]) -> Sequence[int]:
        """The indices: a worker reads the images itself."""
        return indices

    def sample(self, item: int | Sample) -> Sample:
        """An image with its number and its label."""
        if not isinstance(item, int):
            return item
        return item, self.images.batch(torch.tensor([item]))[0], int(self.images.labels[item])


class RowStore(Protocol):
    """Where certificates are kept: a file, or memory."""

    def rows(self) -> Sequence[Row]: ...

    def append(self, row: Row) -> None: ...


def certified_row(classifier: Voter, certifier: Certifier, seed: int, label_known: bool, sample: Sample) -> Row:
    """The certificate of one image as a row, computed by one thread; its noise is that of (seed, index)."""
    index, image, label = sample
    began = time.perf_counter()
    with one_thread():
        found = certifier.certify(classifier, image, NoiseAddress(seed, index), label if label_known else None)
    counts = {number: count for number, count in enumerate(found.counts) if count}
    seconds = time.perf_counter() - began
    digest = image_digest(image, label)
    return Row(index, label, found.prediction, found.radius, seconds, found.samples, counts, digest)


class _OneThread:
    """How many hold it, and the number of threads before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.before = 1


_HELD = _OneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Forward passes on one thread: images are independent, while threads of one pass wait for each other.

    Several threads of a process may hold it; the last one that leaves restores the number.
    """
    with _HELD.lock:
        _HELD.before = _HELD.before if _HELD.holders else torch.get_num_threads()
        _HELD.holders += 1
    torch.set_num_threads(1)  # partly a setting of each thread
    try:
        yield
    finally:
        with _HELD.lock:
            _HELD.holders -= 1
            if not _HELD.holders:
                torch.set_num_threads(_HELD.before)

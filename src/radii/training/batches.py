"""Make the batches of an epoch, or this rank's share of them, and load them ahead in a thread."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import torch

from radii.datasets import Images
from radii.device import free_memory
from radii.objectives import Batch
from radii.runs.recipe import Training
from radii.smoothing.addresses import Purpose, generator
from radii.smoothing.forward import runs_ahead
from radii.smoothing.streams import RowGenerator, Stream
from radii.training.ddp import World

AHEAD = 4
"""Batches that are loaded while one is used."""
SHARE_OF_MEMORY = 4
"""A training set is put on the device if it takes at most this part, a quarter, of the free memory."""
CPU = torch.device("cpu")


class LocalBatch(NamedTuple):
    """The images of a step that this rank trains on."""

    batch: Batch
    weight: float = 1.0
    """The weight of their mean loss, chosen so that the average over the ranks is the mean over the step's images."""
    first: int = 0
    """The place of the first of them in the order of the epoch."""


def put_on_device(images: Images, device: torch.device) -> Images:
    """Copy a split that is held in memory to the device if it fits well; other splits stay where they are."""
    free = free_memory(device)
    return images.to(device, None if free is None else free // SHARE_OF_MEMORY)


def by_place(
    rng: torch.Generator, training: Training, first: int, purpose: Purpose, seed: int, epoch: int
) -> torch.Generator:
    """Return `rng`; with training.stream, a generator that draws for every image by its place, from `first` on."""
    return rng if training.stream is None else RowGenerator.beside(rng, Stream.at(purpose, seed, epoch), first)


def batches(
    images: Images, training: Training, *, seed: int, epoch: int, first: int, world: World
) -> Iterator[LocalBatch]:
    """Yield the batches of an epoch from step `first` on; each depends only on seed, epoch, step and rank.

    Their images are what `images.load` returns; `prefetch` finishes them.
    """
    if training.stream is None:
        order = torch.randperm(len(images), generator=generator("cpu", "shuffle", seed, epoch))
    else:
        order = Stream.at("shuffle", seed, epoch).permutation(len(images))
    for step, chosen in list(enumerate(torch.arange(len(order)).split(training.images_per_step)))[first:]:
        places, weight = world.split(chosen)
        indices, place = order[places], int(places[0])
        rng = generator("cpu", "augment", *world.address(seed, epoch, step))
        loaded = images.load(indices, by_place(rng, training, place, "augment", seed, epoch))
        yield LocalBatch(Batch(loaded, images.labels[indices], indices), weight, place)


def prefetch(
    loaded: Iterator[LocalBatch], images: Images, device: torch.device = CPU, ahead: int = AHEAD
) -> Iterator[LocalBatch]:
    """Yield the batches on the device, finished; load the next ones in a thread while one is used."""
    cuda = torch.cuda.current_device() if device.type == "cuda" else None

    def select_device() -> None:
        if cuda is not None:  # a new thread uses the first GPU, and pinning memory would open it
            torch.cuda.set_device(cuda)

    def load() -> LocalBatch | None:
        local = next(loaded, None)
        if local is None or device.type not in ("cpu", "cuda"):
            return local
        if device.type == "cuda":
            return local._replace(batch=Batch(*(tensor.pin_memory() for tensor in local.batch)))
        return local._replace(batch=local.batch._replace(images=images.finish(local.batch.images)))

    pool = ThreadPoolExecutor(1, initializer=select_device)
    try:
        upcoming: deque[Future[LocalBatch | None]] = deque(pool.submit(load) for _ in range(ahead))
        while (local := upcoming.popleft().result()) is not None:
            upcoming.append(pool.submit(load))
            yield local if device.type == "cpu" else _on_device(local, images, device)
    finally:
        pool.shutdown(cancel_futures=True)


def _on_device(local: LocalBatch, images: Images, device: torch.device) -> LocalBatch:
    """Copy a loaded batch to the device without waiting, and finish it there."""
    moved = Batch(*(tensor.to(device, non_blocking=runs_ahead(device)) for tensor in local.batch))
    return local._replace(batch=moved._replace(images=images.finish(moved.images)))

"""Make the batches of an epoch, prepared ahead; with several processes, this rank's share of each."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch

from radii.datasets import Images
from radii.objectives import Batch
from radii.runs.recipe import Training
from radii.smoothing.addresses import generator
from radii.training.ddp import World


class LocalBatch(NamedTuple):
    """The images of a step that this rank trains on."""

    batch: Batch
    weight: float = 1.0
    """The weight of their mean loss, chosen so that the average over the ranks is the mean over the step's images."""


def batches(
    images: Images, training: Training, *, seed: int, epoch: int, first: int, world: World
) -> Iterator[LocalBatch]:
    """Yield the batches of an epoch from step `first` on; seed, epoch, step and rank determine each of them."""
    order = torch.randperm(len(images), generator=generator("cpu", "shuffle", seed, epoch))
    for step, chosen in list(enumerate(order.split(training.images_per_step)))[first:]:
        indices, weight = world.split(chosen)
        pixels = images.batch(indices, generator("cpu", "augment", *world.address(seed, epoch, step)))
        yield LocalBatch(Batch(pixels, images.labels[indices], indices), weight)


def prefetch(batches: Iterator[LocalBatch]) -> Iterator[LocalBatch]:
    """Yield the same batches, and prepare each while the previous one is used."""
    with ThreadPoolExecutor(1) as pool:
        upcoming = pool.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = pool.submit(next, batches, None)
            yield batch

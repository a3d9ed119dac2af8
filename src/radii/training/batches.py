"""The batches of an epoch, or this process's parts of them, prepared ahead."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from radii.datasets import Images
from radii.objectives import Batch
from radii.runs.recipe import Training
from radii.smoothing.addresses import generator
from radii.training.distributed import World
from radii.training.step import Part


def parts(images: Images, training: Training, seed: int, epoch: int, first: int, world: World) -> Iterator[Part]:
    """This rank's parts of the steps of an epoch from step `first` on: (seed, epoch, step, rank) determines each."""
    order = torch.randperm(len(images), generator=generator("cpu", "shuffle", seed, epoch))
    for step, every in list(enumerate(order.split(training.images_per_step)))[first:]:
        indices, weight = world.part(every)
        pixels = images.batch(indices, generator("cpu", "augment", *world.address(seed, epoch, step)))
        yield Part(Batch(pixels, images.labels[indices], indices), weight)


def prefetch(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts, each prepared while the previous one is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = pool.submit(next, parts, None)
            yield part

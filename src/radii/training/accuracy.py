"""Measure the accuracy of a network on test images: without noise, and under one draw of noise."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from radii import disk
from radii.datasets import DataError, Dataset, Images, spread_evenly
from radii.engines import device_of
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.smoothing.addresses import generator
from radii.smoothing.forward import evaluating
from radii.smoothing.noise import noisy_copies
from radii.training.batches import by_place
from radii.training.ddp import World
from radii.training.weights import trained_model

MOST_CHECKED = 1000
"""Test images for the accuracy without noise."""
FEWEST_CHECKED = 200
"""The same for a slow network."""
SWEPT = 300
"""Test images for the accuracy at each of SIGMAS."""
SIGMAS = (0.12, 0.25, 0.5, 1.0)
BATCH = 20
SECONDS = 30.0
"""A slow network is measured on as many images as it classifies in this time."""


def measure(model: nn.Module, dataset: Dataset, weights: str) -> dict[str, Any] | None:
    """Count right answers on test images spread over the split, on the model's device; None if it cannot be read.

    `weights` is the digest of the model's weights; an outdated measurement is recognised by it.
    """
    try:
        images = dataset.split("test")
    except DataError as error:
        if error.parameter == "enlarge":  # the user can correct the size now
            raise
        return None
    began = time.perf_counter()
    count_right(model, images, spread_evenly(range(len(images)), BATCH))
    seconds = (time.perf_counter() - began) / BATCH
    affordable = min(MOST_CHECKED, max(FEWEST_CHECKED, int(SECONDS / seconds)))
    chosen = spread_evenly(range(len(images)), affordable)
    swept = spread_evenly(chosen, SWEPT if affordable == MOST_CHECKED else FEWEST_CHECKED // 2)
    noisy = [
        {"sigma": sigma, "right": count_right(model, images, swept, sigma), "images": len(swept)} for sigma in SIGMAS
    ]
    return {"right": count_right(model, images, chosen), "images": len(chosen), "noisy": noisy, "weights": weights}


def count_right(model: nn.Module, images: Images, chosen: Sequence[int], sigma: float = 0.0) -> int:
    """Count the chosen images that the network gets right, each under one draw of noise."""
    device = device_of(model)
    right = torch.zeros((), dtype=torch.long, device=device)
    rng = generator("cpu", "measure", round(1000 * sigma))
    with evaluating(model), torch.inference_mode():
        for indices in torch.tensor(chosen).split(BATCH):
            pixels = images.batch(indices)
            noisy = pixels + sigma * torch.randn(pixels.shape, generator=rng) if sigma else pixels
            right += (model(noisy.to(device)).argmax(1) == images.labels[indices].to(device)).sum()
    return int(right)


def record_accuracy(run: Run, open_dataset: Callable[[], Dataset], device: torch.device | None = None) -> None:
    """Write the accuracy of a finished run, unless it has been measured for its present weights."""
    if run.check() or not os.access(run.path, os.W_OK):
        return
    measured = measure(trained_model(run, device), open_dataset(), run.weights_digest())
    if measured is not None:
        disk.sweep(run.path, [run.check_file.name])
        disk.write_json(run.check_file, measured)


def noisy_accuracy(
    model: nn.Module, test: Images, recipe: Recipe, epoch: int, device: torch.device, world: World
) -> float:
    """Return the share of test images that the base classifier gets right under one draw of noise each."""
    hits = torch.zeros((), dtype=torch.int64, device=device)
    rng, training = generator(device, "evaluate", *world.address(recipe.seed, epoch)), recipe.training
    assert training is not None
    with evaluating(model), torch.inference_mode():
        for indices in torch.arange(len(test)).tensor_split(world.size)[world.rank].split(500):
            pixels = test.batch(indices).to(device)
            first = int(indices[0]) if len(indices) else 0
            source = by_place(rng, training, first, "evaluate", recipe.seed, epoch)
            noisy = noisy_copies(pixels, 1, recipe.sigma, source).squeeze(0)
            hits += (model(noisy).argmax(1) == test.labels[indices].to(device)).sum()
    return int(world.sum(hits.cpu())) / len(test)

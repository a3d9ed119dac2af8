"""The training loop: one loop, whatever the objective."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from radii.datasets import Images
from radii.engine import build, checkpoint
from radii.engine.build import Parts
from radii.engine.checkpoint import Progress
from radii.engine.environment import environment
from radii.experiment import files
from radii.experiment.recipe import Recipe, Training
from radii.experiment.run import Run
from radii.objectives import Batch, Objective, Step, Terms
from radii.smoothing.attack import evaluating
from radii.smoothing.noise import generator

SECONDS_BETWEEN_CHECKPOINTS = 300.0
"""Within an epoch; the end of an epoch always writes one."""

# What an address of randomness is for: the first number of every training address.
SHUFFLE, AUGMENT, NOISE, TEST = range(4)


class NotFiniteError(ValueError):
    """The loss left the numbers; the last good checkpoint is kept."""


class Tick(NamedTuple):
    """What a progress display needs after a step."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    row: dict[str, Any] | None
    """The finished epoch's row of training.csv, once an epoch."""


def train(
    recipe: Recipe,
    path: Path | str,
    *,
    data: Path | None = None,
    teacher: Run | Path | str | None = None,
    soft_labels: Path | str | None = None,
    watch: Callable[[Tick], None] = lambda _: None,
) -> Run:
    """Train a recipe in a run directory, from the beginning or from where it stopped; finished is finished."""
    run = Run(path)
    parts = build.build(recipe, data, teacher, soft_labels)
    splits = parts.dataset.split("train"), parts.dataset.split("test")
    run.claim(parts.recipe, parts.origin)
    if run.finished:
        return run
    files.write_json(run.environment_file, environment())
    _epochs(run, parts, *splits, watch)
    build.save_weights(run, parts.model, parts.dataset)
    return run


def _epochs(run: Run, parts: Parts, images: Images, test: Images, watch: Callable[[Tick], None]) -> None:
    training, seed = parts.training, parts.recipe.seed
    device = build.device()
    model = parts.model.to(device)
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        fused=True,
    )
    progress = checkpoint.restore(run, model, optimiser)
    steps = math.ceil(len(images) / training.images_per_step)
    loss = math.nan
    clock = saved = time.perf_counter()
    while progress.epoch < training.epochs:
        model.train()
        for batch in _ahead(_batches(images, training, seed, progress.epoch, progress.step)):
            optimiser.param_groups[0]["lr"] = learning_rate(training, progress.epoch, progress.step / steps)
            rng = generator(device, NOISE, seed, progress.epoch, progress.step, 0)
            on_device = Batch(*(tensor.to(device) for tensor in batch))
            loss = _step(parts, model, optimiser, on_device, Step(progress.epoch, rng), progress)
            progress.step += 1
            progress.seconds, clock = progress.seconds + time.perf_counter() - clock, time.perf_counter()
            if clock - saved > SECONDS_BETWEEN_CHECKPOINTS:
                checkpoint.save(run, model, optimiser, progress)
                saved = clock
            watch(Tick(progress.epoch, training.epochs, progress.step, steps, loss, None))
        row = _close_epoch(progress, parts, model, test, len(images), device)
        checkpoint.save(run, model, optimiser, progress)
        run.write_history(progress.history)
        watch(Tick(progress.epoch, training.epochs, 0, steps, loss, row))
        clock = saved = time.perf_counter()


def _step(
    parts: Parts,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    step: Step,
    progress: Progress,
) -> float:
    terms, loss = gradient_step(parts.objective, model, optimiser, batch, step, f"step {progress.step}")
    for name, term in terms.items():
        progress.totals[name] = progress.totals.get(name, 0.0) + term.detach().sum().item()
    return loss


def gradient_step(
    objective: Objective,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    step: Step,
    where: str = "",
) -> tuple[Terms, float]:
    """One step of the optimiser; the terms and their summed mean. A loss off the numbers stops it."""
    terms = objective.terms(model, batch, step)
    loss = torch.stack([term.mean() for term in terms.values()]).sum()
    if not math.isfinite(value := loss.item()):
        bad = next((name for name, term in terms.items() if not bool(torch.isfinite(term).all())), "their sum")
        raise NotFiniteError(
            f"the loss is {value} at epoch {step.epoch}, {where}, in the term {bad!r}; "
            "the last good checkpoint is kept: lower training.learning_rate and start another run"
        )
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return terms, value


def _batches(images: Images, training: Training, seed: int, epoch: int, first: int) -> Iterator[Batch]:
    """The batches of an epoch from step `first` on; their content depends on (seed, epoch, step) alone."""
    order = torch.randperm(len(images), generator=generator("cpu", SHUFFLE, seed, epoch))
    for step, indices in list(enumerate(order.split(training.images_per_step)))[first:]:
        pixels = images.batch(indices, generator("cpu", AUGMENT, seed, epoch, step))
        yield Batch(pixels, images.labels[indices], indices)


def _ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, each made while the one before is learned from."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _close_epoch(
    progress: Progress, parts: Parts, model: nn.Module, test: Images, trained: int, device: torch.device
) -> dict[str, Any]:
    row = {
        "epoch": progress.epoch,
        "seconds": progress.seconds,
        "learning_rate": learning_rate(parts.training, progress.epoch, 0.0),
        "loss": sum(progress.totals.values()) / trained,
        **{name: total / trained for name, total in progress.totals.items()},
        "noisy_test_accuracy": noisy_accuracy(model, test, parts.recipe, progress.epoch, device),
    }
    progress.history.append(row)
    progress.epoch, progress.step, progress.seconds, progress.totals = progress.epoch + 1, 0, 0.0, {}
    return row


def noisy_accuracy(model: nn.Module, test: Images, recipe: Recipe, epoch: int, device: torch.device) -> float:
    """The share of test images that the base classifier gets right under one draw of noise each."""
    hits = 0
    rng = generator(device, TEST, recipe.seed, epoch)
    with evaluating(model), torch.inference_mode():
        for indices in torch.arange(len(test)).split(500):
            pixels = test.batch(indices).to(device)
            noise = torch.randn(pixels.shape, generator=rng, device=device)
            hits += int((model(pixels + recipe.sigma * noise).argmax(1).cpu() == test.labels[indices]).sum())
    return hits / len(test)


def learning_rate(training: Training, epoch: int, through: float) -> float:
    """The learning rate at `epoch` plus the share `through` of it."""
    passed = (epoch + through) / training.epochs
    match training.schedule:
        case "step":
            factor = training.decay ** (epoch // training.decay_every)
        case "multi_step":
            factor = training.decay ** sum(epoch >= at for at in training.decay_at)
        case "cosine":
            factor = (1 + math.cos(math.pi * passed)) / 2
        case _:
            # One cycle: up from a twenty-fifth over the first 30 %, then down to nothing, both along cosines.
            peak = 0.3
            rising = passed < peak
            part = passed / peak if rising else (passed - peak) / (1 - peak)
            wave = (1 - math.cos(math.pi * part)) / 2
            factor = 0.04 + 0.96 * wave if rising else 1 - wave
    return training.learning_rate * factor

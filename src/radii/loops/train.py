"""The training loop: one loop, whatever the objective."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from radii.datasets import Images
from radii.experiment import events, files
from radii.experiment.recipe import Recipe, Training
from radii.experiment.run import Run
from radii.loops.components import Components, assemble, stored
from radii.loops.device import default_device
from radii.loops.environment import environment
from radii.loops.identity import claim_data
from radii.loops.interrupts import Interrupts
from radii.loops.recording import recorded_steps
from radii.loops.schedule import learning_rate, make_optimizer
from radii.loops.state import TrainState
from radii.loops.weights import save_weights
from radii.objectives import Batch, Objective, Step, Terms
from radii.smoothing.addresses import generator
from radii.smoothing.modes import evaluating

SECONDS_BETWEEN_CHECKPOINTS = 300.0
"""Within an epoch; the end of an epoch always writes one."""


class NotFiniteError(ValueError):
    """The loss is infinite or not a number; the last good checkpoint is kept."""


class StepEvent(NamedTuple):
    """What a progress display needs after a step."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    row: dict[str, Any] | None
    """The finished epoch's row of training.csv, after the last step of an epoch."""
    terms: Mapping[str, float] = {}
    """The mean over the step's images of every term of the loss."""


OnStep = Callable[[StepEvent], None]


def train(
    recipe: Recipe,
    path: Path | str,
    *,
    data: Path | None = None,
    teacher: Run | Path | str | None = None,
    soft_labels: Path | str | None = None,
    trust: Collection[str] = (),
    on_step: OnStep = lambda _: None,
) -> Run:
    """Train a recipe in a run directory, or continue it where it stopped; a finished run is returned as it is.

    `trust` names the modules whose code may be imported by the runs that the recipe starts from.
    """
    run = Run(path)
    components = assemble(recipe, data, teacher, soft_labels, trust)
    splits = components.dataset.split("train"), components.dataset.split("test")
    with run.writing():
        run.claim(stored(components.recipe, run), components.origin)
        claim_data(run, splits[0])
        if not run.finished:
            with events.working(run.path, "train", epochs=components.training.epochs) as log:
                _train_to_the_end(run, components, *splits, recorded_steps(log, on_step))
    return run


def _train_to_the_end(run: Run, components: Components, images: Images, test: Images, on_step: OnStep) -> None:
    files.write_json(run.environment_file, environment())
    with Interrupts() as interrupts:
        _train_epochs(run, components, images, test, on_step, interrupts)
    files.remove(run.previous_checkpoint_file)
    save_weights(run, components.model, components.spec)


def _train_epochs(
    run: Run, components: Components, images: Images, test: Images, on_step: OnStep, interrupts: Interrupts
) -> None:
    training, recipe = components.training, components.recipe
    model = components.model.to(default_device())
    state = TrainState(model, make_optimizer(training, model))
    state.restore(run)
    steps = math.ceil(len(images) / training.images_per_step)
    while state.epoch < training.epochs:
        loss = _train_epoch(run, components, state, images, steps, on_step, interrupts)
        accuracy = noisy_accuracy(model, test, recipe, state.epoch, default_device())
        row = _row(state, training, len(images), accuracy)
        state.close_epoch(row)
        state.save(run)
        run.write_history(state.history)
        interrupts.deliver()
        on_step(StepEvent(state.epoch, training.epochs, 0, steps, loss, row))


def _train_epoch(
    run: Run,
    components: Components,
    state: TrainState,
    images: Images,
    steps: int,
    on_step: OnStep,
    interrupts: Interrupts,
) -> float:
    """The rest of an epoch, with periodic checkpoints and one before a signal ends it; returns the last loss."""
    training, seed, device = components.training, components.recipe.seed, default_device()
    loss = math.nan
    clock = saved = time.perf_counter()
    state.model.train()
    for batch in prefetch(_batches(images, training, seed, state.epoch, state.step)):
        state.optimizer.param_groups[0]["lr"] = learning_rate(training, state.epoch, state.step / steps)
        step = Step(state.epoch, generator(device, "train", seed, state.epoch, state.step))
        on_device = Batch(*(tensor.to(device) for tensor in batch))
        where = f"step {state.step}"
        terms, loss = gradient_step(components.objective, state.model, state.optimizer, on_device, step, where)
        sums = {name: term.detach().sum().item() for name, term in terms.items()}
        state.add(sums)
        state.seconds, clock = state.seconds + time.perf_counter() - clock, time.perf_counter()
        if interrupts.pending is not None or clock - saved > SECONDS_BETWEEN_CHECKPOINTS:
            state.save(run)
            saved = clock
            interrupts.deliver()
        means = {name: value / len(batch.labels) for name, value in sums.items()}
        on_step(StepEvent(state.epoch, training.epochs, state.step, steps, loss, None, means))
    return loss


def gradient_step(
    objective: Objective,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    step: Step,
    where: str = "",
) -> tuple[Terms, float]:
    """One step of the optimiser; the terms and their summed mean. Raises NotFiniteError if the loss is not finite."""
    terms = objective.terms(model, batch, step)
    loss = torch.stack([term.mean() for term in terms.values()]).sum()
    if not math.isfinite(value := loss.item()):
        bad = next((name for name, term in terms.items() if not bool(torch.isfinite(term).all())), "their sum")
        raise NotFiniteError(
            f"the loss is {value} at epoch {step.epoch}, {where}, in the term {bad!r}; "
            "the last good checkpoint is kept: lower training.learning_rate and start another run"
        )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return terms, value


def _batches(images: Images, training: Training, seed: int, epoch: int, first: int) -> Iterator[Batch]:
    """The batches of an epoch from step `first` on; their content depends on (seed, epoch, step) alone."""
    order = torch.randperm(len(images), generator=generator("cpu", "shuffle", seed, epoch))
    for step, indices in list(enumerate(order.split(training.images_per_step)))[first:]:
        pixels = images.batch(indices, generator("cpu", "augment", seed, epoch, step))
        yield Batch(pixels, images.labels[indices], indices)


def prefetch(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, each prepared while the previous one is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _row(state: TrainState, training: Training, images: int, accuracy: float) -> dict[str, Any]:
    """The row of training.csv for the epoch that ends."""
    return {
        "epoch": state.epoch,
        "seconds": state.seconds,
        "learning_rate": learning_rate(training, state.epoch, 0.0),
        "loss": sum(state.totals.values()) / images,
        **{name: total / images for name, total in state.totals.items()},
        "noisy_test_accuracy": accuracy,
    }


def noisy_accuracy(model: nn.Module, test: Images, recipe: Recipe, epoch: int, device: torch.device) -> float:
    """The share of test images that the base classifier classifies correctly under one draw of noise each."""
    hits = 0
    rng = generator(device, "evaluate", recipe.seed, epoch)
    with evaluating(model), torch.inference_mode():
        for indices in torch.arange(len(test)).split(500):
            pixels = test.batch(indices).to(device)
            noise = torch.randn(pixels.shape, generator=rng, device=device)
            hits += int((model(pixels + recipe.sigma * noise).argmax(1).cpu() == test.labels[indices]).sum())
    return hits / len(test)

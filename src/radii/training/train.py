"""The training loop: one loop, whatever the objective and however many processes."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from radii import disk
from radii.datasets import Images
from radii.device import default_device
from radii.objectives import Batch, Step
from radii.provenance import record_environment, record_training_data
from radii.runs.recipe import Recipe, RecipeError, Training
from radii.runs.run import Run
from radii.smoothing.addresses import generator
from radii.smoothing.modes import evaluating
from radii.training.agreement import expect_same
from radii.training.allocator import keep_freed_memory
from radii.training.batches import parts, prefetch
from radii.training.batchnorm import synchronise
from radii.training.components import Components, assemble, stored
from radii.training.distributed import ALONE, World, joined
from radii.training.interrupts import Interrupts
from radii.training.recording import recorded_steps
from radii.training.schedule import learning_rate, make_optimizer
from radii.training.state import TrainState
from radii.training.step import Done, Loss, Part, agreed, gradient_step
from radii.training.weights import save_weights

SECONDS_BETWEEN_CHECKPOINTS = 300.0
"""Within an epoch; the end of an epoch always writes one."""


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
    """Every term of the loss, its mean over the images of the step."""


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

    `trust` names the modules whose code may be imported by the runs that the recipe starts from. In processes that
    torchrun started, all train together, and rank 0 alone reads and writes the run and calls `on_step`.
    """
    keep_freed_memory()
    run, world = Run(path), joined()
    components = assemble(recipe, data, teacher, soft_labels, trust)
    images, test = components.dataset.part("train"), components.dataset.part("test")
    _expect_work_for(world, components.training)
    with ExitStack() as held:
        finished = world.told(lambda: _claimed(run, components, images, held))
        if not finished:
            expect_same(world, components.recipe, components.origin, images, test)
            with recorded_steps(run.path, on_step, world.first) as sink:
                _train_to_the_end(run, components, images, test, sink, world)
        world.wait()
    return run


def _expect_work_for(world: World, training: Training) -> None:
    if training.images_per_step < world.size:
        raise RecipeError(
            f"training.images_per_step = {training.images_per_step} is for all {world.size} processes together: "
            "expected at least one image for each"
        )


def _claimed(run: Run, components: Components, images: Images, held: ExitStack) -> bool:
    """Lock the run and claim it for the recipe and its data; whether it is finished already."""
    held.enter_context(run.writing())
    run.claim(stored(components.recipe, run), components.origin, components.defaults)
    record_training_data(run, images)
    return run.finished


def _train_to_the_end(
    run: Run, components: Components, images: Images, test: Images, on_step: OnStep, world: World
) -> None:
    with Interrupts() as interrupts:
        _Training(run, components, images, test, on_step, world, interrupts).run_epochs()
    if world.first:
        disk.remove(run.previous_checkpoint_file)
        save_weights(run, components.model, components.spec)


class _Training:
    """A run that is being trained, in one of its processes."""

    def __init__(
        self,
        run: Run,
        components: Components,
        images: Images,
        test: Images,
        on_step: OnStep,
        world: World,
        interrupts: Interrupts,
    ) -> None:
        self.run, self.images, self.test = run, images, test
        self.on_step, self.world, self.interrupts = on_step, world, interrupts
        self.recipe, self.training, self.device = components.recipe, components.training, default_device()
        model = components.model.to(self.device)
        if world.size > 1 and self.training.batch_norm == "synchronised":
            synchronise(model)
        self.state = TrainState(model, make_optimizer(self.training, model))
        self.steps = math.ceil(len(images) / self.training.images_per_step)
        self._restore()
        self.loss = world.wrap(Loss(components.objective, model, self.training.precision))

    def _restore(self) -> None:
        """Restore the last checkpoint, which rank 0 reads for all."""
        run, state = self.run, self.state
        content = self.world.told(lambda: state.restore(run))
        if not self.world.first and content is not None:
            state.load(content, run.checkpoint_file)
        if self.world.first:
            record_environment(run, self.world.size, state.epoch, state.step)

    def run_epochs(self) -> None:
        state, training = self.state, self.training
        while state.epoch < training.epochs:
            loss = self._epoch()
            accuracy = noisy_accuracy(state.model, self.test, self.recipe, state.epoch, self.device, self.world)
            row = _row(state, training, len(self.images), accuracy)
            state.close_epoch(row)
            self._save()
            if self.world.first:
                self.run.write_history(state.history)
            self._stop_by(agreed(self.interrupts, self.world))
            self._show(loss, row)

    def _epoch(self) -> float:
        """The rest of an epoch, with periodic checkpoints and one before a signal ends it; returns the last loss."""
        state, done = self.state, Done(math.nan, {})
        clock = saved = time.perf_counter()
        state.model.train()
        for part in prefetch(parts(self.images, self.training, self.recipe.seed, state.epoch, state.step, self.world)):
            done = self._step(part)
            state.seconds, clock = state.seconds + time.perf_counter() - clock, time.perf_counter()
            if done.signal or clock - saved > SECONDS_BETWEEN_CHECKPOINTS:
                self._save()
                saved = clock
                self._stop_by(done.signal)
            self._show(done.loss, terms=done.terms)
        return done.loss

    def _step(self, part: Part) -> Done:
        state, seed = self.state, self.recipe.seed
        state.optimizer.param_groups[0]["lr"] = learning_rate(self.training, state.epoch, state.step / self.steps)
        address = self.world.address(seed, state.epoch, state.step)
        step = Step(state.epoch, generator(self.device, "train", *address))
        on_device = part._replace(batch=Batch(*(tensor.to(self.device) for tensor in part.batch)))
        where = f"step {state.step}"
        done = gradient_step(self.loss, state.optimizer, on_device, step, where, self.world, self.interrupts)
        state.add(done.terms)
        return done

    def _save(self) -> None:
        if self.world.first:
            self.state.save(self.run)

    def _stop_by(self, signal: int | None) -> None:
        """Stop in all processes at once, after rank 0 has saved; nothing without a signal."""
        if signal is not None:
            self.world.wait()
            self.interrupts.deliver(signal)

    def _show(self, loss: float, row: dict[str, Any] | None = None, terms: Mapping[str, float] | None = None) -> None:
        if self.world.first:
            state, per_step = self.state, self.training.images_per_step
            images = min(per_step, len(self.images) - (state.step - 1) * per_step)
            means = {name: total / images for name, total in (terms or {}).items()}
            self.on_step(StepEvent(state.epoch, self.training.epochs, state.step, self.steps, loss, row, means))


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


def noisy_accuracy(
    model: nn.Module, test: Images, recipe: Recipe, epoch: int, device: torch.device, world: World = ALONE
) -> float:
    """The share of test images that the base classifier classifies correctly under one draw of noise each."""
    hits = 0
    rng = generator(device, "evaluate", *world.address(recipe.seed, epoch))
    with evaluating(model), torch.inference_mode():
        for indices in torch.arange(len(test)).tensor_split(world.size)[world.rank].split(500):
            pixels = test.batch(indices).to(device)
            noise = torch.randn(pixels.shape, generator=rng, device=device)
            hits += int((model(pixels + recipe.sigma * noise).argmax(1).cpu() == test.labels[indices]).sum())
    return int(world.sum(torch.tensor(hits))) / len(test)

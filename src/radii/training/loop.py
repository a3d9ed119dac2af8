"""Train a recipe in a run: one loop for every objective, in one process or in several."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from radii import disk
from radii.datasets import Images
from radii.device import default_device, keep_freed_memory
from radii.estimate import OnEstimate
from radii.objectives import Step
from radii.provenance import record_environment, record_training_data
from radii.runs import recipe as recipes
from radii.runs.events import working
from radii.runs.recipe import Recipe, RecipeError
from radii.runs.run import Run
from radii.smoothing.addresses import generator
from radii.training.accuracy import noisy_accuracy
from radii.training.batches import LocalBatch, batches, by_place, prefetch, put_on_device
from radii.training.batchnorm import synchronise
from radii.training.build import Components, build, stored
from radii.training.checkpoint import TrainState
from radii.training.ddp import World, expect_same_inputs, join_world
from radii.training.interrupts import SIGNALS, Interrupts
from radii.training.optimizer import learning_rate, make_optimizer, set_learning_rate
from radii.training.precision import check_precision, make_scaler, tuned
from radii.training.step import Loss, StepResult, expect_finite_weights, gradient_step
from radii.training.timing import steps_within, time_steps, training_time
from radii.training.weights import save_weights

SECONDS_BETWEEN_CHECKPOINTS = 300.0
"""Within an epoch; the end of an epoch always writes one."""


class StepEvent(NamedTuple):
    """The argument of `on_step`, after every step and after every epoch."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    row: dict[str, Any] | None
    """The row of training.csv after an epoch; None after a step."""
    terms: Mapping[str, float] = {}
    """Every term of the loss, as the mean over the images of the step."""
    total: int | None = None
    """Steps of the whole training; None if all epochs are whole."""


OnStep = Callable[[StepEvent], None]


def train(
    recipe: Recipe | Path | str,
    run: Path | str,
    *,
    settings: Sequence[str] = (),
    data: Path | str | None = None,
    teacher: Run | Path | str | None = None,
    soft_labels: Path | str | None = None,
    trust: Collection[str] = (),
    minutes: float | None = None,
    on_step: OnStep = lambda _: None,
    on_estimate: OnEstimate | None = None,
) -> Run:
    """Train a recipe in the folder `run`, or continue it where it stopped; a finished run is returned as it is.

    `recipe` is a Recipe, a recipe file, or the name of a shipped one; `settings` such as "training.epochs=5" override
    the fields of a file. `minutes` replaces epochs and steps: a few steps are timed, and the run records how many it
    takes, so that it can be repeated. `on_estimate` is called with the estimated time before the first step. `trust`
    names the modules whose code may be imported by the runs that the recipe starts from.
    In processes that torchrun started, all train together, and only rank 0 reads and writes the run and calls
    `on_step`.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> run.finished
    True
    """
    if not isinstance(recipe, Recipe):
        recipe = recipes.read(recipes.find(recipe), settings)
    elif settings:
        raise ValueError("settings override a recipe file: change the fields of the Recipe instead")
    keep_freed_memory()
    target, world = Run(run), join_world()
    tape = world.size == 1  # with several processes, the noise may depend on the rank
    if recipe.training is not None:
        check_precision(recipe.training.precision, default_device())
    components = build(recipe, None if data is None else Path(data), teacher, soft_labels, trust, tape=tape)
    if minutes is not None:
        components = _within(minutes, components, target, world)
    _train(target, components, world, on_step, on_estimate)
    return target


def _within(minutes: float, components: Components, run: Run, world: World) -> Components:
    """Return the components for the number of steps that fit into some minutes, or that the run has recorded."""

    def choose() -> int:
        recorded = run.stated_recipe().training if run.recipe_file.is_file() else None
        if recorded is not None and recorded.steps is not None:
            return recorded.steps
        return steps_within(components, minutes, time_steps(components))

    return components.with_steps(world.broadcast_from_rank0(choose))


def _train(
    run: Run, components: Components, world: World, on_step: OnStep, on_estimate: OnEstimate | None = None
) -> None:
    """Train in a locked run until it is finished."""
    test = components.dataset.part("test")
    if components.training.images_per_step < world.size:
        raise RecipeError(
            f"training.images_per_step = {components.training.images_per_step} is for all {world.size} processes "
            "together: expected at least one image for each"
        )
    with ExitStack() as lock:
        finished = world.broadcast_from_rank0(lambda: _claim(run, components, lock))
        if not finished:
            expect_same_inputs(world, components.recipe, components.origin, components.images, test)
            with _logged(run.path, on_step, world) as log_step:
                loop = _Loop(run, components, test, log_step, world)
                if on_estimate is not None and world.is_rank0:
                    on_estimate(training_time(components, time_steps(components), loop.steps_done))
                with Interrupts() as interrupts:
                    loop.run_epochs(interrupts)
                if world.is_rank0:
                    disk.remove(run.previous_checkpoint_file)
                    save_weights(run, components.model, components.spec)
        world.wait()


def _claim(run: Run, components: Components, lock: ExitStack) -> bool:
    """Lock the run and claim it for the recipe and its data; return whether it is already finished."""
    lock.enter_context(run.writing())
    run.claim(stored(components.recipe, run), components.origin, components.defaults)
    record_training_data(run, components.images)
    return run.finished


@contextmanager
def _logged(run: Path, on_step: OnStep, world: World) -> Iterator[OnStep]:
    """Wrap `on_step` to log epochs and periodic steps in the run's events, on rank 0 only."""
    if not world.is_rank0:
        yield on_step
        return
    with working(run, "train") as log:

        def log_step(event: StepEvent) -> None:
            if event.row is not None:
                log.write("epoch", **event.row, epochs=event.epochs)
            elif log.due():
                position = {"epoch": event.epoch, "epochs": event.epochs, "step": event.step, "steps": event.steps}
                log.write("step", **position, loss=event.loss, terms=dict(event.terms))
            on_step(event)

        yield log_step


class _Loop:
    """The training of a run in one of its processes."""

    def __init__(self, run: Run, components: Components, test: Images, on_step: OnStep, world: World) -> None:
        self.run, self.images, self.test = run, components.images, test
        self.on_step, self.world = on_step, world
        self.recipe, self.training, self.device = components.recipe, components.training, default_device()
        model = components.model.to(self.device)
        self.images = put_on_device(self.images, self.device)
        if world.size > 1 and self.training.batch_norm == "synchronised":
            synchronise(model, self.device)
        scaler = make_scaler(self.training.precision, self.device)
        self.state = TrainState(model, make_optimizer(self.training, model), scaler)
        self.steps = components.steps_per_epoch
        self._restore()
        self.last = self.state.epoch, self.state.step
        """Epoch and number of the last step."""
        objective = components.objective.to(self.device)
        self.loss = world.wrap(Loss(objective, model, self.training.precision, compiled=self.training.compile))

    def _restore(self) -> None:
        """Restore the last checkpoint, which rank 0 reads and sends to the others."""
        run, state = self.run, self.state
        content = self.world.broadcast_from_rank0(lambda: state.restore(run))
        if self.world.is_rank0:
            record_environment(run, self.world.size, state.epoch, state.step)
        elif content is not None:
            state.load(content, run.checkpoint_file)

    @property
    def steps_done(self) -> int:
        return self.state.epoch * self.steps + self.state.step

    def run_epochs(self, interrupts: Interrupts) -> None:
        """Train to the end. Signals that arrive meanwhile are delayed until a step is complete."""
        self.interrupts = interrupts
        state = self.state
        while state.epoch < self.training.epochs_begun:
            loss = self._run_epoch()
            row = self._make_row()
            state.close_epoch(row)
            self._save()
            if self.world.is_rank0:
                self.run.write_history(state.history)
            self._stop_by(self._agree_on_signal())
            self._report(loss, row)

    def _run_epoch(self) -> float:
        """Make the remaining steps of an epoch, with checkpoints in between, and return the last loss."""
        state, result = self.state, StepResult(math.nan, {})
        clock = saved = time.perf_counter()
        core_clock = time.process_time()
        state.model.train()
        upcoming = batches(
            self.images, self.training, seed=self.recipe.seed, epoch=state.epoch, first=state.step, world=self.world
        )
        upcoming = islice(upcoming, max(0, self._steps_of_epoch() - state.step))
        for local in prefetch(upcoming, self.images, self.device):
            with tuned(self.training.precision, self.device):
                result = self._run_step(local)
            state.seconds, clock = state.seconds + time.perf_counter() - clock, time.perf_counter()
            state.core_seconds += time.process_time() - core_clock
            core_clock = time.process_time()
            signal = self._signal_after(result)
            if signal or clock - saved > SECONDS_BETWEEN_CHECKPOINTS:
                self._save()
                saved = clock
                self._stop_by(signal)
            self._report(result.loss, terms=result.terms)
        return result.loss

    def _steps_of_epoch(self) -> int:
        """Return the steps of this epoch: fewer in the last one if the training ends within it."""
        if self.training.steps is None:
            return self.steps
        return min(self.steps, self.training.steps - self.state.epoch * self.steps)

    def _run_step(self, local: LocalBatch) -> StepResult:
        state = self.state
        set_learning_rate(state.optimizer, learning_rate(self.training, state.epoch, state.step / self.steps))
        seed, epoch = self.recipe.seed, state.epoch
        rng = generator(self.device, "train", *self.world.address(seed, epoch, state.step))
        rng = by_place(rng, self.training, local.first, "train", seed, epoch)
        progress = (state.epoch + state.step / self.steps) / self.training.epochs
        step = Step(epoch, rng, min(1.0, progress))
        result = gradient_step(
            self.loss,
            state.optimizer,
            local,
            step,
            number=state.step,
            world=self.world,
            scaler=state.scaler,
            share=self._signal_flags,
        )
        self.last = state.epoch, state.step
        state.add(result.terms)
        return result

    def _save(self) -> None:
        """Write a checkpoint; raise a NotFiniteError if the weights are not finite."""
        if self.world.is_rank0:
            expect_finite_weights(self.state.model, *self.last)
            self.state.save(self.run)

    def _agree_on_signal(self) -> int | None:
        """Return the signal that any rank has delayed, so that all stop at the same step."""
        return _first_signal(self.world.sum(torch.tensor(self._signal_flags())).tolist())

    def _signal_after(self, result: StepResult) -> int | None:
        """Return the signal that the ranks agreed on in a step; a single process also sees one that came at its end."""
        return _first_signal(result.shared if self.world.size > 1 else self._signal_flags())

    def _signal_flags(self) -> list[float]:
        """Return 1 for a signal that this rank has delayed, 0 for the others."""
        return [float(number == self.interrupts.pending) for number in SIGNALS]

    def _stop_by(self, signal: int | None) -> None:
        """Stop if there is a signal; wait first until rank 0 has saved."""
        if signal is not None:
            self.world.wait()
            self.interrupts.deliver(signal)

    def _report(self, loss: float, row: dict[str, Any] | None = None, terms: Mapping[str, float] | None = None) -> None:
        if self.world.is_rank0:
            state, per_step = self.state, self.training.images_per_step
            images = min(per_step, len(self.images) - (state.step - 1) * per_step)
            means = {name: total / images for name, total in (terms or {}).items()}
            epochs, total = self.training.epochs_begun, self.training.steps
            self.on_step(StepEvent(state.epoch, epochs, state.step, self.steps, loss, row, means, total))

    def _make_row(self) -> dict[str, Any]:
        state = self.state
        images = min(len(self.images), state.step * self.training.images_per_step)
        accuracy = noisy_accuracy(state.model, self.test, self.recipe, state.epoch, self.device, self.world)
        return {
            "epoch": state.epoch,
            "seconds": state.seconds,
            "core_seconds": float(self.world.sum(torch.tensor(state.core_seconds, dtype=torch.float64))),
            "learning_rate": learning_rate(self.training, state.epoch, 0.0),
            "loss": sum(state.totals.values()) / images,
            **{name: total / images for name, total in state.totals.items()},
            "noisy_test_accuracy": accuracy,
        }


def _first_signal(counts: Sequence[float]) -> int | None:
    return next((number for number, count in zip(SIGNALS, counts, strict=True) if count), None)

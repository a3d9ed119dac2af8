"""Time a few steps before a training begins, to estimate its duration or to fit it into some minutes."""

import copy
import time
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from radii.device import default_device, wait_for
from radii.errors import ParameterError
from radii.estimate import Estimate
from radii.objectives import Batch, Objective, Step
from radii.objectives.transfer import Transfer
from radii.smoothing.addresses import generator
from radii.smoothing.forward import evaluating
from radii.training.batches import LocalBatch, by_place
from radii.training.build import Components
from radii.training.optimizer import make_optimizer
from radii.training.precision import make_scaler, tuned
from radii.training.step import Loss, gradient_step
from radii.training.tape import Tape

PROGRESS = (1.0, 0.5, 0.1, 0.9, 0.3, 0.7)
"""Where in the training the timed steps are, as objectives may begin with cheaper ones; the first one warms up."""
TIMED_STEPS = len(PROGRESS) - 1
LONG_ENOUGH = 3.0
"""The seconds after which timing stops."""
SHARE_OF_BUDGET = 0.95
"""The share of the stated minutes that is planned; reading, saving and variation take the rest."""


class StepTime(NamedTuple):
    """The seconds of an optimizer step, its mean and its maximum, and of measuring the accuracy after an epoch."""

    step: float
    slowest: float
    epoch_end: float


def time_steps(components: Components) -> StepTime:
    """Time a few steps after one to warm up, on a copy of the model; only one step if it takes long."""
    images, device = components.images, default_device()
    per_step = components.training.images_per_step
    model = copy.deepcopy(components.model).to(device).train()
    optimizer = make_optimizer(replace(components.training, learning_rate=1e-4), model)
    training = components.training
    objective = _without_recording(components).to(device)
    loss = Loss(objective, model, training.precision, compiled=training.compile)
    scaler = make_scaler(training.precision, device)
    seconds: list[float] = []
    for number, progress in enumerate(PROGRESS):
        indices = torch.arange(number * per_step, (number + 1) * per_step) % len(images)
        rng = by_place(generator(device, "time", number), training, 0, "time", 0, number)
        step = Step(training.epochs_begun, rng, progress)
        began = time.perf_counter()
        pixels = images.batch(indices).to(device)
        batch = Batch(pixels, images.labels[indices].to(device), indices.to(device))
        with tuned(training.precision, device):
            gradient_step(loss, optimizer, LocalBatch(batch), step, number=number, scaler=scaler)
        seconds.append(time.perf_counter() - began)
        if sum(seconds[1:] if training.compile else seconds) > LONG_ENOUGH:  # the first step compiles
            break
    timed = sorted(seconds[1:] or seconds)
    return StepTime(sum(timed) / len(timed), timed[-1], _time_evaluation(model, components))


def _without_recording(components: Components) -> Objective:
    """Return the objective for steps that are not recorded, because their noise is not that of the training.

    Where the tape has every epoch of the training, the teacher does not run in the timed steps either.
    """
    objective = components.objective
    if not isinstance(objective, Transfer) or not isinstance(objective.tape, Tape):
        return objective
    whole = objective.tape.has_epochs(components.training.epochs_begun)
    return replace(objective, tape=_FirstEpoch(objective.tape) if whole else None)


class _FirstEpoch:
    """A tape that gives the logits of the first epoch for every epoch."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def logits(self, _: int, indices: Tensor) -> Tensor | None:
        return self.tape.logits(0, indices)

    def record(self, epoch: int, indices: Tensor, logits: Tensor) -> None:
        """Record nothing."""


def _time_evaluation(model: torch.nn.Module, components: Components) -> float:
    """Extrapolate the measurement of the noisy test accuracy from one forward pass."""
    test, device = components.dataset.part("test"), default_device()
    chosen = torch.arange(min(components.training.images_per_step, len(test)))
    pixels = test.batch(chosen).to(device)
    with evaluating(model), torch.inference_mode():
        began = time.perf_counter()
        model(pixels)
        wait_for(device)
        return (time.perf_counter() - began) * len(test) / len(chosen)


def training_time(components: Components, measured: StepTime, steps_done: int = 0) -> Estimate:
    """Estimate the time of the whole training, or of the rest after `steps_done` steps."""
    training, per_epoch = components.training, components.steps_per_epoch
    total = training.steps or training.epochs_begun * per_epoch
    left = max(0, total - steps_done)
    ends = training.epochs_begun - steps_done // per_epoch
    seconds = left * measured.step + ends * measured.epoch_end
    return Estimate(
        seconds, 0.8 * seconds, left * max(measured.slowest, 1.3 * measured.step) + 1.5 * ends * measured.epoch_end
    )


def steps_within(components: Components, minutes: float, measured: StepTime) -> int:
    """Return how many steps fit into some minutes, with a measurement of accuracy after every epoch."""
    if not minutes > 0:
        raise ParameterError(f"minutes = {minutes:g}, expected a number > 0")
    seconds = 60 * minutes * SHARE_OF_BUDGET - measured.epoch_end
    return max(1, int(seconds / (measured.step + measured.epoch_end / components.steps_per_epoch)))

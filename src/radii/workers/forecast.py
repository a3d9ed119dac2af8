"""Forecast how long certification will take: time a block of some images, and simulate what their programs ask for."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.datasets import spread_evenly
from radii.errors import ParameterError
from radii.estimate import Estimate
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Answer, Hits, Probabilities, Question, Task, Votes
from radii.workers.scheduler import Program, Workers

PILOT = 24
"""Images of the pilot, spread over all; one block of each is counted."""
FEWEST = 3
"""Images that the pilot takes, however slow they are."""
LONG_ENOUGH = 3.0
"""Seconds after which the pilot stops."""
SIMULATIONS = 8
"""Simulated programs of each image of the pilot."""
FASTER, SLOWER = 0.8, 1.35
"""The range of a block's time, as multiples: the machine may be busy, and forward passes may not be full."""
SHARE_OF_BUDGET = 0.9
"""The share of the stated minutes that images are chosen for. Preparing and chance take the rest."""
STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
"""The allowed `every`, times a power of 100. They are so few that the same command later chooses the same one."""

Begin = Callable[[int], Program[Any]]
"""Returns the program of the image at a position."""


def forecast(worker: Workers, block: int, begin: Begin, images: int) -> Estimate | None:
    """Estimate the seconds of a worker for one image; return None if a program cannot be simulated.

    The pilot draws noise of its own, which no certificate uses. Its votes estimate the probabilities of the classes,
    with which the programs are simulated. The range is wide if few images need most of the copies.
    """
    if not images:
        return Estimate(0.0, 0.0, 0.0)
    rng = np.random.default_rng(0)
    seconds, copies = [], []
    for number, position in enumerate([0, *spread_evenly(range(images), PILOT)]):
        program = begin(position)
        worker.submit([Task(program.image, NoiseAddress(0, position, purpose="time"), Votes(0, 0, block))])
        _, report = worker.next()
        if report.error is not None:
            raise report.error
        if number:  # the first block also prepares the engine
            seconds.append(report.seconds)
            try:
                copies.append(_copies(begin, position, report.answers[0], rng))
            except _UnknownError:
                return None
        if number >= FEWEST and sum(seconds) > LONG_ENOUGH:
            break
    mean, margin = float(np.mean(copies)), 2 * float(np.std(copies)) / math.sqrt(len(copies))
    pace = sorted(seconds)[len(seconds) // 2] / block
    least = min(copies)
    return Estimate(mean * pace, FASTER * pace * max(least, mean - margin), SLOWER * pace * (mean + margin))


def every_within(estimate: Estimate, images: int, minutes: float, workers: int) -> int:
    """Return the n for which every nth image fits into some minutes; the last image alone if none does."""
    if not minutes > 0:
        raise ParameterError(f"minutes = {minutes:g}, expected a number > 0")
    affordable = max(1.0, 60 * minutes * SHARE_OF_BUDGET * workers / max(estimate.seconds, 1e-9))
    least, scale = images / affordable, 1
    while True:
        for step in STEPS:
            if step * scale >= least or step * scale >= images:
                return min(step * scale, max(1, images))
        scale *= 100


class _UnknownError(Exception):
    """The question cannot be simulated."""


def _copies(begin: Begin, position: int, counts: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Return the mean number of copies that the image's program asks for, given the votes of one block."""
    totals = []
    for _ in range(SIMULATIONS):
        likely = rng.dirichlet(counts + 1 / len(counts))
        totals.append(_simulated(begin(position), likely, rng))
        if totals[0] == totals[-1] and len(totals) == 2:
            break  # a certifier with a fixed number of samples
    return float(np.mean(totals))


def _simulated(program: Program[Any], likely: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Return how many copies a program asks for if the classes have these probabilities."""
    total, answer = 0, None
    while True:
        try:
            question = program.steps.send(answer)  # type: ignore[arg-type]
        except StopIteration:
            return total
        total += question.count
        answer = _answer(question, likely, rng)


def _answer(question: Question, likely: Sequence[float] | NDArray[np.float64], rng: np.random.Generator) -> Answer:
    """Answer a question as a classifier would that gives the classes with these probabilities."""
    if isinstance(question, Votes):
        return rng.multinomial(question.count, likely)
    if isinstance(question, Probabilities):
        likely = np.asarray(likely)
        return question.count * likely if question.label is None else np.full(question.count, likely[question.label])
    if isinstance(question, Hits):
        return rng.random(question.count) < likely[question.label]
    raise _UnknownError

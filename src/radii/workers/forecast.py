"""Forecast how long votes will take: time blocks of a few images, and simulate what their programs will ask."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.datasets import spread_evenly
from radii.engines import SmoothedClassifier
from radii.errors import ParameterError
from radii.estimate import Estimate
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Answer, Hits, Probabilities, Question, Task, Votes
from radii.workers.scheduler import Program
from radii.workers.voter import one_thread

PILOT = 24
"""Images of which one block is counted, spread over all."""
FEWEST = 3
LONG_ENOUGH = 3.0
"""Stop the pilot after so many seconds."""
SIMULATIONS = 8
"""Simulated programs of each image of the pilot."""
FASTER, SLOWER = 0.8, 1.35
"""The range of the time of a block, as multiples: other work on the machine, forward passes that are not full."""
SHARE_OF_BUDGET = 0.9
"""The share of the stated minutes that images are planned for: preparing and chance take the rest."""
STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
"""The allowed `every`, times a power of 100: so few that the same command later chooses the same one."""

Begin = Callable[[int], Program[Any]]
"""Returns the program of the image at a position."""


def forecast(classifier: SmoothedClassifier, begin: Begin, images: int) -> Estimate | None:
    """Estimate the seconds of one worker for one image; None if a program cannot be simulated.

    The pilot has noise of its own, which no certificate uses. Its votes estimate the probability of each class, and
    the programs are simulated with these. The range is wide where few images need most of the copies.
    """
    if not images:
        return Estimate(0.0, 0.0, 0.0)
    rng, block = np.random.default_rng(0), classifier.batch_size
    seconds, copies = [], []
    for number, position in enumerate([0, *spread_evenly(range(images), PILOT)]):
        program = begin(position)
        task = Task(program.image, NoiseAddress(0, position, purpose="time"), Votes(0, 0, block))
        began = time.perf_counter()
        with one_thread():
            counts = classifier.count([task])[0]
        if number:  # the first block also prepares the engine
            seconds.append(time.perf_counter() - began)
            try:
                copies.append(_copies(begin, position, counts, rng))
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
    """A question that cannot be simulated."""


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
    total, answer = 0, None
    while True:
        try:
            question = program.steps.send(answer)  # type: ignore[arg-type]
        except StopIteration:
            return total
        total += question.count
        answer = _answer(question, likely, rng)


def _answer(question: Question, likely: Sequence[float] | NDArray[np.float64], rng: np.random.Generator) -> Answer:
    """Answer a question as a classifier would whose copies have these probabilities."""
    if isinstance(question, Votes):
        return rng.multinomial(question.count, likely)
    if isinstance(question, Probabilities):
        likely = np.asarray(likely)
        return question.count * likely if question.label is None else np.full(question.count, likely[question.label])
    if isinstance(question, Hits):
        return rng.random(question.count) < likely[question.label]
    raise _UnknownError

"""Simulated workers: the scheduler runs as it is, only the votes and the clock are invented."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from radii.certifiers import Certifier, certify_image
from radii.certifiers.base import About
from radii.estimate import OnWork, Work
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import Certificate
from radii.smoothing.noise import Gaussian
from radii.smoothing.questions import Answer, Task
from radii.workers.scheduler import Program, Report, Scheduler


class DrawnVotes:
    """A voter with two classes that gives the label's class with a known probability."""

    noise = Gaussian(0.5)
    classes = 2

    def __init__(self, probabilities: NDArray[np.float64], batch_size: int) -> None:
        self.batch_size = batch_size
        self._probabilities = probabilities
        self._rng = np.random.default_rng(0)

    def count(self, tasks: Sequence[Task]) -> list[Answer]:
        found = []
        for task in tasks:
            hits = self._rng.binomial(task.question.count, self._probabilities[task.address.image])
            found.append(np.array([hits, task.question.count - hits]))
        return found


@dataclass(frozen=True)
class Machines:
    """Workers that are alike, and the process that hands out the work and writes."""

    workers: int
    seconds_per_sample: float
    start: float
    """Seconds until the first worker has loaded the model."""
    start_each: float = 0.0
    """Seconds that every further worker waits longer: weights that one machine sends one after the other."""
    latency: float = 0.005
    """Seconds from the process to a worker, or back."""
    dispatch: float = 0.001
    """Seconds of the process for every task: Dask's scheduler, and the writing of a row."""


class SimulatedWorkers:
    """Answers tasks at once, and says that they are done when a worker would have."""

    def __init__(self, voter: DrawnVotes, machines: Machines) -> None:
        self._voter = voter
        self._machines = machines
        starts = [machines.start + number * machines.start_each for number in range(machines.workers)]
        self._free = [(at, number) for number, at in enumerate(starts)]
        self._done: list[tuple[float, int, Report]] = []
        self._tickets = count()
        self.clock = 0.0
        self.tasks = 0

    def submit(self, tasks: Sequence[Task]) -> int:
        return self.work(sum(task.question.count for task in tasks), self._voter.count(tasks))

    def work(self, samples: int, answers: Sequence[Answer] = ()) -> int:
        """Have the next free worker draw samples."""
        machines = self._machines
        seconds = samples * machines.seconds_per_sample
        self.clock += machines.dispatch
        self.tasks += 1
        free, worker = heapq.heappop(self._free)
        end = max(free, self.clock + machines.latency) + seconds
        heapq.heappush(self._free, (end, worker))
        ticket = next(self._tickets)
        heapq.heappush(self._done, (end + machines.latency, ticket, Report(answers, seconds, str(worker), {})))
        return ticket

    def next(self) -> tuple[int, Report]:
        at, ticket, report = heapq.heappop(self._done)
        self.clock = max(self.clock, at)
        return ticket, report

    def close(self) -> None:
        self._done.clear()


@dataclass(frozen=True)
class Simulation:
    """How long the work took, and how much of the workers' time was forward passes."""

    seconds: float
    samples: int
    share: float
    """Of a perfect speed-up: the work over the time of all workers."""
    tasks: int


def simulate(
    certifier: Certifier,
    probabilities: NDArray[np.float64],
    machines: Machines,
    batch_size: int,
    whole: bool = False,
    on_work: Callable[[Callable[[], Work], float], None] = lambda *_: None,
) -> Simulation:
    """Certify images of known probabilities by simulated workers; `whole` images, or also parts of one.

    `on_work` is called with the work done and the time.
    """
    voter = DrawnVotes(probabilities, batch_size)
    workers = SimulatedWorkers(voter, machines)
    run = _whole_images if whole else partial(_scheduled, on_work=lambda work: on_work(work, workers.clock))
    samples = sum(certificate.samples for certificate in run(certifier, voter, len(probabilities), workers, machines))
    work = samples * machines.seconds_per_sample
    return Simulation(workers.clock, samples, work / (machines.workers * workers.clock), workers.tasks)


def _scheduled(
    certifier: Certifier,
    voter: DrawnVotes,
    images: int,
    workers: SimulatedWorkers,
    machines: Machines,
    on_work: OnWork,
) -> list[Certificate]:
    about = About(voter.noise, voter.classes, voter.batch_size)

    def begin(image: int) -> Program[Certificate]:
        return Program(None, NoiseAddress(0, image), certifier.certify(about, 0))

    scheduler = Scheduler(
        begin,
        images,
        workers,
        classes=voter.classes,
        block=voter.batch_size,
        expected=machines.workers,
        most_samples=getattr(certifier, certifier.fewest_samples()[0]),
        on_work=on_work,
    )
    return [finished.result for finished in scheduler.results()]


def _whole_images(
    certifier: Certifier, voter: DrawnVotes, images: int, workers: SimulatedWorkers, machines: Machines
) -> list[Certificate]:
    """Every image is one task, in their order: what a plain map over an executor does."""
    found = [certify_image(certifier, voter, None, NoiseAddress(0, image), 0) for image in range(images)]
    for started, certificate in enumerate(found):
        if started >= 2 * machines.workers:
            workers.next()
        workers.work(certificate.samples)
    for _ in range(min(images, 2 * machines.workers)):
        workers.next()
    return found

"""Simulated workers: radii.workers.spread runs as it is, only the forward passes and the clock are not real."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from radii.workers.blocks import Attempt
from radii.workers.remote import Report
from radii.workers.spread import Spread

from radii.certifiers import Certifier
from radii.certifiers.base import Voter
from radii.runs.certificates import Row
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Gaussian
from radii.workers.pool import Call, Outcome

ENVIRONMENT = {"versions": {"radii": metadata.version("radii")}}


class DrawnVotes:
    """A classifier of two classes that gives the label's class with a known probability; it counts its samples."""

    def __init__(self, probabilities: NDArray[np.float64], batch_size: int) -> None:
        self.noise = Gaussian(0.5)
        self.classes = 2
        self.batch_size = batch_size
        self.drawn = 0
        self._probabilities = probabilities
        self._rng = np.random.default_rng(0)

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        self.drawn += samples
        hits = self._rng.binomial(samples, self._probabilities[noise.image])
        return np.array([hits, samples - hits])

    def probabilities(
        self, image: Any, samples: int, noise: NoiseAddress, sharpness: float = 1.0
    ) -> Iterator[NDArray[np.float64]]:
        raise NotImplementedError("only votes are simulated")


@dataclass
class Simulated:
    """A session of images whose label's probability is known."""

    certifier: Certifier
    classifier: DrawnVotes
    config: Any = None

    def items(self, indices: Sequence[int]) -> Sequence[int]:
        return indices

    def certify(self, item: int, voter: Voter | None = None) -> Row:
        found = self.certifier.certify(voter or self.classifier, None, NoiseAddress(0, item), 0)
        return Row(item, 0, found.prediction, found.radius, 0.0, found.samples)


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


class SimulatedCrew:
    """Computes a task at once, and says that it is done when a worker would have."""

    def __init__(self, session: Simulated, machines: Machines) -> None:
        self._session = session
        self._machines = machines
        starts = [machines.start + number * machines.start_each for number in range(machines.workers)]
        self._free = [(at, number) for number, at in enumerate(starts)]
        self._done: list[tuple[float, int, Report]] = []
        self._tickets = count()
        self.clock = 0.0
        self.dispatched = 0.0

    def submit(self, call: Call) -> int:
        _, item, job, _ = call.arguments
        before, machines = self._session.classifier.drawn, self._machines
        found = job(self._session, item)
        seconds = (self._session.classifier.drawn - before) * machines.seconds_per_sample
        self.clock += machines.dispatch
        self.dispatched += machines.dispatch
        free, worker = heapq.heappop(self._free)
        end = max(free, self.clock + machines.latency) + seconds
        heapq.heappush(self._free, (end, worker))
        ticket = next(self._tickets)
        heapq.heappush(self._done, (end + machines.latency, ticket, Report(found, seconds, str(worker), ENVIRONMENT)))
        return ticket

    def next(self) -> tuple[int, Outcome]:
        at, ticket, report = heapq.heappop(self._done)
        self.clock = max(self.clock, at)
        return ticket, Outcome(True, report)

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
    certifier: Certifier, probabilities: NDArray[np.float64], machines: Machines, batch_size: int, whole: bool = False
) -> Simulation:
    """Certify images of known probabilities by simulated workers; `whole` images, or also parts of one."""
    session = Simulated(certifier, DrawnVotes(probabilities, batch_size))
    crew = SimulatedCrew(session, machines)
    images = range(len(probabilities))
    spread = WholeImages if whole else Spread
    rows = list(spread(session, images, crew, machines.workers).rows())
    assert [row.index for row in rows] == list(images)
    samples = sum(row.samples or 0 for row in rows)
    work = samples * machines.seconds_per_sample
    tasks = round(crew.dispatched / machines.dispatch) if machines.dispatch else 0
    return Simulation(crew.clock, samples, work / (machines.workers * crew.clock), tasks)


class WholeImages(Spread):
    """Every image is one task, in their order: what a plain map over an executor does."""

    def _job(self, task: Any) -> Any:
        return Attempt({}, float("inf"), 0)

"""Worker backends: this process, a pool of local processes, or any executor."""

import math
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import torch

from radii.device import worker_variables
from radii.errors import ParameterError, RunWarning
from radii.estimate import Estimate, OnWork
from radii.smoothing.questions import Task
from radii.workers.cluster import ExecutorPool, expect_same_version
from radii.workers.forecast import forecast
from radii.workers.pool import Call, Outcome, ProcessPool, WorkerError
from radii.workers.scheduler import Finished, Program, Report, Result, Scheduler, Workers
from radii.workers.voter import VOTERS, Missing, Shipped, answer, check_report, count_votes

if TYPE_CHECKING:
    from radii.engines import SmoothedClassifier


class Calls(Protocol):
    """Where calls are computed, in any order: a pool of processes, or an executor."""

    def submit(self, call: Call) -> int:
        """Queue a call; return its ticket."""

    def next(self) -> tuple[int, Outcome]:
        """Wait until a call is done; return its ticket and outcome. Raise a WorkerError if no worker can continue."""

    def close(self) -> None:
        """Drop the calls that are not done."""


def run_programs(
    classifier: "SmoothedClassifier",
    begin: Callable[[int], Program[Result]],
    images: int,
    workers: int = 1,
    executor: Executor | None = None,
    target: torch.device | None = None,
    pool: ProcessPool | None = None,
    most_samples: float = math.inf,
    on_work: OnWork = lambda _: None,
) -> Generator[Finished[Result], None, None]:
    """Run one program for each image and yield the results in order.

    `executor` counts the votes; by default `workers` processes of this machine do, or this process if `workers` is 1.
    They do so on the `target`, or on the classifier's device. `pool` holds the processes, if they have been started.
    The scheduler gets `most_samples` and `on_work`.
    """
    target = target or classifier.device
    alone = images <= 1 and target.type == classifier.device.type
    with open_workers(classifier, 1 if alone else workers, executor, target, pool) as counting:
        yield from Scheduler(
            begin,
            images,
            counting,
            classes=classifier.classes,
            block=classifier.batch_size,
            expected=workers,
            most_samples=most_samples,
            on_work=on_work,
        ).results()


def forecast_programs(
    classifier: "SmoothedClassifier",
    begin: Callable[[int], Program[Any]],
    images: int,
    target: torch.device | None = None,
) -> Estimate | None:
    """Estimate the seconds of one worker for one image; return None if a program cannot be simulated.

    This process is timed, or a worker process if the target is another device than the classifier's.
    """
    with open_workers(classifier, 1, None, target) as worker:
        return forecast(worker, classifier.batch_size, begin, images)


@contextmanager
def open_workers(
    classifier: "SmoothedClassifier",
    workers: int,
    executor: Executor | None,
    target: torch.device | None = None,
    pool: ProcessPool | None = None,
) -> Iterator[Workers]:
    """Open the workers that count votes: this process, an executor, or a pool of processes.

    Those of another device than the classifier's are in other processes. A classifier that cannot be pickled runs in
    threads of this process, with a warning.
    """
    is_here = target is None or target.type == classifier.device.type
    if executor is None and workers == 1 and is_here:
        yield InProcess(classifier)
        return
    shipped = Shipped(classifier, target)
    with ExitStack() as held:
        if executor is None or isinstance(executor, ProcessPoolExecutor):
            try:
                shipped.shipment  # noqa: B018  raises if it cannot be pickled
            except ParameterError as error:
                if executor is not None:
                    raise ParameterError(f"{error}; use an executor of threads", "executor") from error
                warnings.warn(f"{error}; it runs in threads of this process", RunWarning, stacklevel=5)
                executor, is_here = held.enter_context(ThreadPoolExecutor(workers)), True
        if is_here:
            held.enter_context(VOTERS.holding(shipped))
        calls: Calls = (pool or open_pool(workers)) if executor is None else ExecutorPool(executor)
        held.callback(calls.close)
        if isinstance(calls, ExecutorPool):
            calls.expect_radii()
        yield Remote(shipped, calls)


def open_pool(workers: int) -> ProcessPool:
    """Return a pool of processes of this machine, each with its own GPU if there are several."""
    return ProcessPool(workers, worker_variables())


@contextmanager
def started_pool(workers: int) -> Iterator[ProcessPool]:
    """Start worker processes that import torch and radii while this process prepares the classifier."""
    pool = open_pool(workers)
    try:
        pool.start("radii.engines")
        yield pool
    finally:
        pool.close()


class InProcess:
    """Answers tasks in this process, each when `next` is called."""

    def __init__(self, classifier: "SmoothedClassifier") -> None:
        self._classifier = classifier
        self._waiting: deque[tuple[int, Sequence[Task]]] = deque()
        self._tickets = count()

    def submit(self, tasks: Sequence[Task]) -> int:
        ticket = next(self._tickets)
        self._waiting.append((ticket, tasks))
        return ticket

    def next(self) -> tuple[int, Report]:
        ticket, tasks = self._waiting.popleft()
        return ticket, answer(self._classifier, tasks)

    def close(self) -> None:
        self._waiting.clear()


class Remote:
    """Sends tasks to other processes or threads, and the classifier to those that do not have it yet."""

    def __init__(self, shipped: Shipped, calls: Calls) -> None:
        self._shipped = shipped
        self._calls = calls
        self._sent: dict[int, tuple[int, Sequence[Task], bool]] = {}
        """The caller's ticket, the tasks and whether the classifier went along, by the ticket of the call."""
        self._tickets = count()

    def submit(self, tasks: Sequence[Task]) -> int:
        ticket = next(self._tickets)
        self._send(ticket, tasks)
        return ticket

    def next(self) -> tuple[int, Report]:
        while True:
            call, outcome = self._calls.next()
            ticket, tasks, complete = self._sent.pop(call)
            if isinstance(outcome.content, WorkerError):  # only these tasks failed
                return ticket, Report((), 0.0, "", {}, outcome.content)
            answered = outcome.value()
            if not isinstance(answered, Missing):
                report = check_report(answered)
                expect_same_version(report.environment["versions"]["radii"])
                return ticket, report if report.error is not None else _with_own_answers(report, tasks)
            if complete:
                raise WorkerError("a worker asks for the classifier that it was sent: check the executor", "executor")
            self._send(ticket, tasks, self._shipped.shipment)

    def close(self) -> None:
        self._calls.close()

    def _send(self, ticket: int, tasks: Sequence[Task], *shipment: Any) -> None:
        # A view would be pickled with the whole tensor behind it, and the worker may not see the GPU of an image.
        tasks = [task._replace(image=task.image.detach().cpu().clone()) for task in tasks]
        images = sorted({task.address.image for task in tasks})
        name = f"image {images[0]}" if len(images) == 1 else f"images {images[0]} to {images[-1]}"
        call = self._calls.submit(Call(name, count_votes, (self._shipped.token, tasks, *shipment)))
        self._sent[call] = (ticket, tasks, bool(shipment))


def _with_own_answers(report: Report, tasks: Sequence[Task]) -> Report:
    """Return the report if it answers these tasks; otherwise replace its answers by an error."""
    if list(report.asked) == [(task.address, task.question) for task in tasks]:
        return report
    return replace(report, answers=(), error=WorkerError("a worker answered other questions than it got", "executor"))

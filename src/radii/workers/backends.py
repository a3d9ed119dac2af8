"""Worker backends: this process, a pool of local processes, or any executor."""

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any, Protocol

from radii.device import worker_variables
from radii.engines import SmoothedClassifier
from radii.errors import ParameterError, RunWarning
from radii.smoothing.questions import Task
from radii.workers.cluster import ExecutorPool, expect_same_version
from radii.workers.pool import Call, Outcome, ProcessPool, WorkerError
from radii.workers.scheduler import Finished, Program, Report, Result, Scheduler, Workers
from radii.workers.voter import VOTERS, Missing, Shipped, answered, count_votes


class Calls(Protocol):
    """Computes calls in any order: a pool of processes, or an executor."""

    def submit(self, call: Call) -> int:
        """Have a call computed; returns its ticket."""

    def next(self) -> tuple[int, Outcome]:
        """Wait for a call; returns its ticket and its outcome. Raises a WorkerError if nobody can go on."""

    def close(self) -> None:
        """Drop the calls that are not done."""


def run_programs(
    classifier: SmoothedClassifier,
    begin: Callable[[int], Program[Result]],
    images: int,
    workers: int = 1,
    executor: Executor | None = None,
) -> Generator[Finished[Result], None, None]:
    """Run one program for each image and yield the results in order.

    The votes are counted by `executor`, by default by `workers` processes of this machine; by this process itself if
    that is one.
    """
    with open_workers(classifier, workers if images > 1 else 1, executor) as counting:
        yield from Scheduler(
            begin, images, counting, classes=classifier.classes, block=classifier.batch_size, expected=workers
        ).results()


@contextmanager
def open_workers(classifier: SmoothedClassifier, workers: int, executor: Executor | None) -> Iterator[Workers]:
    """Open what counts the votes of a classifier.

    A classifier that cannot be pickled is run by threads of this process, with a warning.
    """
    if executor is None and workers == 1:
        yield InProcess(classifier)
        return
    shipped = Shipped(classifier)
    with ExitStack() as held:
        if executor is None or isinstance(executor, ProcessPoolExecutor):
            try:
                shipped.shipment  # noqa: B018  raises if it cannot be pickled
            except ParameterError as error:
                if executor is not None:
                    raise ParameterError(f"{error}; this executor needs that: use threads", "executor") from error
                warnings.warn(f"{error}; it runs in threads of this process", RunWarning, stacklevel=5)
                executor = held.enter_context(ThreadPoolExecutor(workers))
        held.enter_context(VOTERS.holding(shipped))
        calls: Calls = ProcessPool(workers, worker_variables()) if executor is None else ExecutorPool(executor)
        held.callback(calls.close)
        if isinstance(calls, ExecutorPool):
            calls.expect_radii()
        yield SentAway(shipped, calls)


class InProcess:
    """Answers tasks in this process, when their answer is asked for."""

    def __init__(self, classifier: SmoothedClassifier) -> None:
        self._classifier = classifier
        self._waiting: deque[tuple[int, Sequence[Task]]] = deque()
        self._tickets = count()

    def submit(self, tasks: Sequence[Task]) -> int:
        ticket = next(self._tickets)
        self._waiting.append((ticket, tasks))
        return ticket

    def next(self) -> tuple[int, Report]:
        ticket, tasks = self._waiting.popleft()
        return ticket, answered(self._classifier, tasks)

    def close(self) -> None:
        self._waiting.clear()


class SentAway:
    """Sends tasks to other processes or threads, and the classifier to those that do not have it."""

    def __init__(self, shipped: Shipped, calls: "Calls") -> None:
        self._shipped = shipped
        self._calls = calls
        self._sent: dict[int, tuple[int, Sequence[Task]]] = {}
        """The caller's ticket and the tasks, by the ticket of the call: tasks may be sent again."""
        self._tickets = count()

    def submit(self, tasks: Sequence[Task]) -> int:
        ticket = next(self._tickets)
        self._send(ticket, tasks)
        return ticket

    def next(self) -> tuple[int, Report]:
        while True:
            call, outcome = self._calls.next()
            ticket, tasks = self._sent.pop(call)
            if isinstance(outcome.found, WorkerError):  # of these tasks alone
                return ticket, Report((), 0.0, "", {}, outcome.found)
            report = outcome.value()
            if not isinstance(report, Report | Missing):
                raise WorkerError(f"a worker answered a {type(report).__name__}, expected a report", "executor")
            if not isinstance(report, Missing):
                expect_same_version(report.environment["versions"]["radii"])
                return ticket, report
            self._send(ticket, tasks, self._shipped.shipment)

    def close(self) -> None:
        self._calls.close()

    def _send(self, ticket: int, tasks: Sequence[Task], *shipment: Any) -> None:
        # A view would be pickled with the whole tensor that it is a part of.
        tasks = [task._replace(image=task.image.detach().clone()) for task in tasks]
        images = sorted({task.address.image for task in tasks})
        name = f"image {images[0]}" if len(images) == 1 else f"images {images[0]} to {images[-1]}"
        call = self._calls.submit(Call(name, count_votes, (self._shipped.token, tasks, *shipment)))
        self._sent[call] = (ticket, tasks)

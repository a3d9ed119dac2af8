"""Who computes calls: processes of this machine, or any executor of `concurrent.futures`."""

import time
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from importlib import metadata
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from radii.device import worker_variables
from radii.errors import RunWarning
from radii.workers.pool import Call, Outcome, ProcessCrew, WorkerError

SILENCE = 20.0
"""Seconds without an answer of any worker that are worth a warning, unless tasks have taken long before."""
KEPT = "what is written is kept, and the same command or call continues it"


class Crew(Protocol):
    """Computes calls in any order."""

    def submit(self, call: Call) -> int:
        """Have a call computed; returns its ticket."""

    def next(self) -> tuple[int, Outcome]:
        """Wait for a call to be done: its ticket and its outcome. Raises a WorkerError if nobody can go on."""

    def close(self) -> None:
        """Drop the calls that are not done."""


def crew_of(workers: int, executor: Executor | None) -> Crew:
    """The workers of an executor, by default so many processes of this machine."""
    if executor is None:
        return ProcessCrew(workers, worker_variables())
    crew = ExecutorCrew(executor)
    try:
        crew.expect_radii()
    except BaseException:
        crew.close()
        raise
    return crew


def expect_same_version(theirs: str) -> None:
    """Refuse a worker of another radii."""
    ours = metadata.version("radii")
    if theirs != ours:
        raise WorkerError(
            f"a worker runs radii {theirs}, this is {ours}: install the same version on every worker", "executor"
        )


class ExecutorCrew:
    """The workers of an executor, of which nothing is used but `submit`: pools of processes, Dask, MPI, Parsl."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._name = type(executor).__name__
        self._tickets = count()
        self._calls: dict[int, tuple[Call, Future[Any]]] = {}
        self._done: SimpleQueue[int] = SimpleQueue()
        self._longest = 0.0
        """The longest time, in seconds, that an answer was waited for."""

    def expect_radii(self) -> None:
        """Ask a worker for its radii before any work is sent: Dask's die of what they cannot unpickle."""
        self.submit(Call("the question for its radii", metadata.version, ("radii",)))
        expect_same_version(self.next()[1].value())

    def submit(self, call: Call) -> int:
        ticket = next(self._tickets)
        future = self._or_failed(call, lambda: self._executor.submit(call.function, *call.arguments))
        self._calls[ticket] = (call, future)
        future.add_done_callback(partial(_put, self._done, ticket))
        return ticket

    def next(self) -> tuple[int, Outcome]:
        began = time.monotonic()
        ticket = self._answered()
        self._longest = max(self._longest, time.monotonic() - began)
        call, future = self._calls.pop(ticket)
        return ticket, Outcome(True, self._or_failed(call, future.result))

    def close(self) -> None:
        for _, future in self._calls.values():
            future.cancel()

    def _answered(self) -> int:
        """The ticket of a call that is done; a warning where nobody answers, and again after twice the time."""
        patience, waited = max(SILENCE, 2 * self._longest), 0.0
        while True:
            try:
                return self._done.get(timeout=patience)
            except Empty:
                waited += patience
                patience = waited
                self._warn(waited)

    def _warn(self, seconds: float) -> None:
        warnings.warn(
            f"no worker has answered for {seconds:.0f} s, tasks not done: {len(self._calls)}; see whether the workers "
            f"of {self._name} run: the work goes on when one answers",
            RunWarning,
            stacklevel=2,
        )

    def _or_failed(self, call: Call, function: Callable[[], Any]) -> Any:
        """What a function of the executor returns: errors of the work itself come back as results."""
        try:
            return function()
        except CancelledError as error:
            raise WorkerError(
                f"{self._name} has dropped {call.name}: it was shut down, or lost its scheduler; {KEPT}", "executor"
            ) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".rstrip(": ")
            raise WorkerError(
                f"{self._name} failed at {call.name} ({reason}): it was shut down, its workers died, or they have "
                f"another or no radii; {KEPT}",
                "executor",
            ) from error


def _put(done: "SimpleQueue[int]", ticket: int, _: Future[Any]) -> None:
    done.put(ticket)

"""Who computes calls: processes of this machine, or any executor of `concurrent.futures`."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from radii.loops.pool import Call, Outcome, WorkerError, map_in_processes, portable

Item = TypeVar("Item")
Result = TypeVar("Result")


class Crew(Protocol):
    """Computes calls in any order."""

    def submit(self, call: Call) -> int:
        """Have a call computed; returns its ticket."""

    def next(self) -> tuple[int, Outcome]:
        """Wait for a call to be done: its ticket and its outcome. Raises a WorkerError if nobody can go on."""

    def close(self) -> None:
        """Drop the calls that are not done."""


class ExecutorCrew:
    """The workers of an executor, of which nothing is used but `submit`: pools of processes, Dask, MPI, Parsl."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._tickets = count()
        self._calls: dict[int, tuple[Call, Future[Any]]] = {}
        self._done: SimpleQueue[int] = SimpleQueue()

    def submit(self, call: Call) -> int:
        ticket = next(self._tickets)
        future = self._or_failed(call, lambda: self._executor.submit(call.function, *call.arguments))
        self._calls[ticket] = (call, future)
        future.add_done_callback(partial(_put, self._done, ticket))
        return ticket

    def next(self) -> tuple[int, Outcome]:
        ticket = self._done.get()
        call, future = self._calls.pop(ticket)
        return ticket, Outcome(True, self._or_failed(call, future.result))

    def close(self) -> None:
        for _, future in self._calls.values():
            future.cancel()

    def _or_failed(self, call: Call, function: Callable[[], Any]) -> Any:
        """What a function of the executor returns: errors of the work itself come back as results."""
        try:
            return function()
        except Exception as error:
            name = type(self._executor).__name__
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".rstrip(": ")
            raise WorkerError(
                f"{name} failed at {call.name} ({reason}): its workers died, or have another or no radii; what is "
                "written is kept, the same command continues there",
                "executor",
            ) from error


def _put(done: "SimpleQueue[int]", ticket: int, _: Future[Any]) -> None:
    done.put(ticket)


def map_work(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    executor: Executor | None = None,
    name: str = "item",
) -> Iterator[Result]:
    """The results of a function in the order of the items, by an executor, or by `workers` processes of this machine.

    An error of the function is raised in the order of the items.
    """
    if executor is None:
        yield from map_in_processes(function, items, workers, name)
        return
    with closing(ExecutorCrew(executor)) as crew:
        calls = (Call(f"{name} {item}", _outcome, (function, item)) for item in items)
        outcomes: dict[int, Outcome] = {}
        for ticket in [crew.submit(call) for call in calls]:
            while ticket not in outcomes:
                done, reported = crew.next()
                outcomes[done] = reported.value()
            result: Result = outcomes.pop(ticket).value()
            yield result


def _outcome(function: Callable[[Item], Result], item: Item) -> Outcome:
    try:
        return Outcome(True, function(item))
    except Exception as error:
        return Outcome(False, portable(error))

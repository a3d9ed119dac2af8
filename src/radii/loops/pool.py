"""Worker processes that are replaced when they die and end with their parent.

Imports no torch: a worker watches its parent before torch is loaded.
"""

import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any, Generic, TypeVar

from radii.errors import ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST_DEATHS = 3
"""The number of worker deaths at one item that stops the work."""


class WorkerError(ParameterError):
    """Worker processes died repeatedly at one item."""


def map_in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int, name: str = "image"
) -> Iterator[Result]:
    """The results of a function in the order of the items, computed by `workers` processes.

    A worker that dies is replaced and its item is computed again; the third death at one item is a WorkerError. An
    error of the function is raised in the order of the items. The workers end with the iterator or this process.
    """
    if workers < 1:  # nobody would ever do the work
        raise ParameterError(f"workers = {workers}, expected a whole number >= 1", "workers")
    pool = _Pool(function, items, name)
    try:
        pool.start(min(workers, len(items)))
        for position in range(len(items)):
            yield pool.result(position)
    finally:
        pool.close()


class _Worker:
    """A process, the connection to it, and the position of its current item."""

    def __init__(self, needs_main: bool) -> None:
        self.position: int | None = None
        self.connection, theirs = get_context("spawn").Pipe()
        self.process: SpawnProcess = get_context("spawn").Process(target=_work, args=(theirs,), daemon=True)
        with _without_interrupts(), nullcontext() if needs_main else _without_main():
            self.process.start()
        theirs.close()

    def give(self, position: int, task: bytes) -> None:
        self.position = position
        with suppress(OSError):  # it died, which `outcome` detects
            self.connection.send_bytes(task)

    def outcome(self) -> tuple[bool, Any] | None:
        """Whether the item succeeded, with the result or the error; None if the worker died."""
        try:
            outcome: tuple[bool, Any] = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None
        return outcome

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class _Pool(Generic[Item, Result]):
    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item], name: str) -> None:
        self.function = function
        self.items = items
        self.name = name
        self.needs_main = needs_main(pickle.dumps(function))
        self.waiting = deque(range(len(items)))
        self.deaths: dict[int, int] = {}
        self.outcomes: dict[int, tuple[bool, Any]] = {}
        self.workers: list[_Worker] = []

    def start(self, workers: int) -> None:
        for _ in range(workers):
            worker = _Worker(self.needs_main)
            self.workers.append(worker)
            self._give(worker)

    def result(self, position: int) -> Result:
        """The result of an item; raises its error."""
        while position not in self.outcomes:
            connections = {worker.connection: worker for worker in self.workers}
            for ready in wait(list(connections)):
                self._collect(connections[ready])  # type: ignore[index]
        good, found = self.outcomes.pop(position)
        if not good:
            raise found
        result: Result = found
        return result

    def close(self) -> None:
        for worker in self.workers:
            worker.end()

    def _give(self, worker: _Worker) -> None:
        if self.waiting:
            position = self.waiting.popleft()
            worker.give(position, pickle.dumps((self.function, self.items[position])))
        else:
            worker.position = None

    def _collect(self, worker: _Worker) -> None:
        """Take a worker's outcome and give it the next item, or replace it if it died."""
        outcome = worker.outcome()
        if outcome is None:
            self._replace(worker)
        elif worker.position is not None:
            self.outcomes[worker.position] = outcome
            self._give(worker)

    def _replace(self, dead: _Worker) -> None:
        self.workers.remove(dead)
        dead.end()
        if dead.position is not None:
            self._count(dead.position, dead.process.exitcode)
            self.waiting.appendleft(dead.position)
        if self.waiting:
            self.start(1)

    def _count(self, position: int, code: int | None) -> None:
        self.deaths[position] = self.deaths.get(position, 0) + 1
        if self.deaths[position] == MOST_DEATHS:
            raise WorkerError(
                f"{MOST_DEATHS} worker processes died at {self.name} {self.items[position]}, the last "
                f"{_cause(code)}: check that there is enough memory for the workers, or use fewer",
                "workers",
            )


def needs_main(pickled: bytes) -> bool:
    """Whether a pickled object is of a class or function of the user's script itself."""
    return b"__main__" in pickled


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return f"of signal {signal.Signals(-code).name}"
    return f"with exit code {code}"


def _work(connection: "Connection[Any, Any]") -> None:
    """The loop of a worker: compute tasks until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_outcome(connection.recv_bytes()))


def _outcome(task: bytes) -> bytes:
    try:
        function, item = pickle.loads(task)
        return pickle.dumps((True, function(item)))
    except Exception as error:
        return _pickled(error)


def _pickled(error: Exception) -> bytes:
    """An error in a form that can be sent to the parent."""
    try:
        content = pickle.dumps((False, error))
        pickle.loads(content)
    except Exception:
        content = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return content


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, however that ended."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started here do not receive Ctrl-C; the parent does, and ends them."""
    resource_tracker.ensure_running()  # otherwise multiprocessing starts it later and unblocks Ctrl-C
    before: Iterable[int] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Processes that are started here do not run the user's script again, whose classes they do not need."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main

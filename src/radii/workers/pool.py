"""A pool of worker processes, which are replaced when they die and end with their parent.

Imports no torch: a worker watches its parent before torch is loaded.
"""

import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any

import cloudpickle

from radii.errors import ParameterError

MOST_DEATHS = 3
"""The number of worker deaths at one call that is its error."""
SAFE_PATH = "PYTHONSAFEPATH"
"""Python's variable for a search path without the current folder."""


class WorkerError(ParameterError):
    """Worker processes died repeatedly at one item."""


@dataclass(frozen=True)
class Call:
    """A function and its arguments; the name is what an error calls it."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of a call, or its error."""

    good: bool
    found: Any

    def value(self) -> Any:
        """The result; raises the error."""
        if not self.good:
            raise self.found
        return self.found


class _Worker:
    """A process, the connection to it, and the ticket of its present call; `slot` is its place among the workers."""

    def __init__(self, slot: int, variables: Mapping[str, str]) -> None:
        self.slot = slot
        self.ticket: int | None = None
        self.connection, theirs = get_context("spawn").Pipe()
        self.process: SpawnProcess = get_context("spawn").Process(target=_work, args=(theirs, variables), daemon=True)
        with _without_main(), _safe_path(), _without_interrupts():
            self.process.start()
        theirs.close()

    def give(self, ticket: int, task: bytes) -> None:
        self.ticket = ticket
        with suppress(OSError):  # it died, which `outcome` detects
            self.connection.send_bytes(task)

    def outcome(self) -> Outcome | None:
        """The outcome of its call; None if the worker died."""
        try:
            return Outcome(*pickle.loads(self.connection.recv_bytes()))
        except (EOFError, OSError):
            return None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class ProcessPool:
    """Worker processes, started as they are needed. `variables` are the environment variables of each."""

    def __init__(self, workers: int, variables: Sequence[Mapping[str, str]] = ()) -> None:
        if workers < 1:  # nobody would ever do the work
            raise ParameterError(f"workers = {workers}, expected a whole number >= 1", "workers")
        self._variables = variables
        self._free = list(range(workers))
        self._calls: dict[int, Call] = {}
        self._waiting: deque[int] = deque()
        self._deaths: dict[int, int] = {}
        self._workers: list[_Worker] = []
        self._tickets = count()

    def submit(self, call: Call) -> int:
        """Have a call computed by the next worker that is free; returns its ticket."""
        ticket = next(self._tickets)
        self._calls[ticket] = call
        self._waiting.append(ticket)
        self._employ()
        return ticket

    def next(self) -> tuple[int, Outcome]:
        """The ticket of a call that is done, and its outcome."""
        while True:
            connections = {worker.connection: worker for worker in self._workers}
            ready = wait(list(connections))[0]
            if done := self._collect(connections[ready]):  # type: ignore[index]
                return done

    def close(self) -> None:
        for worker in self._workers:
            worker.end()

    def _employ(self) -> None:
        """Give what waits to idle workers, then to new ones."""
        idle = [worker for worker in self._workers if worker.ticket is None]
        while self._waiting and (idle or self._free):
            self._give(idle.pop() if idle else self._start())

    def _start(self) -> _Worker:
        slot = self._free.pop(0)
        variables = self._variables[slot % len(self._variables)] if self._variables else {}
        worker = _Worker(slot, variables)
        self._workers.append(worker)
        return worker

    def _give(self, worker: _Worker) -> None:
        ticket = self._waiting.popleft()
        call = self._calls[ticket]
        worker.give(ticket, cloudpickle.dumps((call.function, call.arguments)))

    def _collect(self, worker: _Worker) -> tuple[int, Outcome] | None:
        """Take a worker's outcome and give it the next call, or replace it if it died."""
        outcome, ticket = worker.outcome(), worker.ticket
        worker.ticket = None
        if outcome is None:
            outcome = self._bury(worker, ticket)
        self._employ()
        if outcome is None or ticket is None:
            return None
        del self._calls[ticket]
        return ticket, outcome

    def _bury(self, dead: _Worker, ticket: int | None) -> Outcome | None:
        """Replace a dead worker, and have its call computed again; too many deaths are the outcome of the call."""
        self._workers.remove(dead)
        self._free.insert(0, dead.slot)
        dead.end()
        if ticket is None:
            return None
        self._deaths[ticket] = self._deaths.get(ticket, 0) + 1
        if self._deaths[ticket] < MOST_DEATHS:
            self._waiting.appendleft(ticket)
            return None
        error = WorkerError(
            f"{MOST_DEATHS} worker processes died at {self._calls[ticket].name}, the last "
            f"{_cause(dead.process.exitcode)}: check that there is enough memory for the workers, or use fewer",
            "workers",
        )
        return Outcome(False, error)


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return f"of signal {signal.Signals(-code).name}"
    return f"with exit code {code}"


def _work(connection: "Connection[Any, Any]", variables: Mapping[str, str]) -> None:
    """The loop of a worker: compute tasks until the parent closes the connection."""
    os.environ.update(variables)  # before torch is loaded
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_outcome(connection.recv_bytes()))


def _outcome(task: bytes) -> bytes:
    try:
        function, arguments = pickle.loads(task)
        return pickle.dumps((True, function(*arguments)))
    except Exception as error:
        return pickle.dumps((False, portable(error)))


def portable(error: Exception) -> Exception:
    """An error in a form that can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


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
def _safe_path() -> Iterator[None]:
    """Start Python processes that do not search the current folder: it may be a stranger's, with a threading.py in it.

    A worker then gets the search path of its parent. One thread at a time: `_without_main` holds the lock.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(SAFE_PATH)
        os.environ.update({} if before is None else {SAFE_PATH: before})


_MAIN = threading.Lock()


@contextmanager
def _without_main() -> Iterator[None]:
    """Start processes that do not run the user's script again: cloudpickle sends its functions and classes by value.

    One thread at a time: a second one would take the empty module for the script, and keep it.
    """
    with _MAIN:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main

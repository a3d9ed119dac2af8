"""A pool of worker processes. Workers that die are replaced, and all end with their parent.

This module does not import torch, so that a worker watches its parent before torch is loaded.
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
from importlib import import_module
from itertools import count
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any

import cloudpickle

from radii.errors import ParameterError
from radii.plugins import CURRENT_FOLDER

MOST_DEATHS = 3
"""After so many worker deaths, a call fails."""
SAFE_PATH = "PYTHONSAFEPATH"
"""Python's variable for a search path without the current folder."""


class WorkerError(ParameterError):
    """Workers died repeatedly at one call, or gave an invalid answer."""


@dataclass(frozen=True)
class Call:
    """A function and its arguments, with a name for errors."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of a call, or its error."""

    good: bool
    content: Any

    def value(self) -> Any:
        """Return the result, or raise the error."""
        if not self.good:
            raise self.content
        return self.content


class _Worker:
    """A worker process, the connection to it, and the ticket of its present call; `slot` is its number in the pool."""

    def __init__(self, slot: int, variables: Mapping[str, str], module: str | None = None) -> None:
        self.slot = slot
        self.ticket: int | None = None
        self.connection, theirs = get_context("spawn").Pipe()
        self.process: SpawnProcess = get_context("spawn").Process(
            target=_work, args=(theirs, variables, module), daemon=True
        )
        with _without_main(), _safe_path(), _without_interrupts():
            self.process.start()
        theirs.close()

    def give(self, ticket: int, task: bytes) -> None:
        """Send the worker a call."""
        self.ticket = ticket
        with suppress(OSError):  # the worker died, which `outcome` detects
            self.connection.send_bytes(task)

    def outcome(self) -> Outcome | None:
        """Receive the outcome of the worker's call; None if the worker died."""
        try:
            return Outcome(*pickle.loads(self.connection.recv_bytes()))
        except (EOFError, OSError):
            return None

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class ProcessPool:
    """Worker processes, started as they are needed. `variables` are the environment variables of each."""

    def __init__(self, workers: int, variables: Sequence[Mapping[str, str]] = ()) -> None:
        if workers < 1:  # the calls would wait for ever
            raise ParameterError(f"workers = {workers}, expected a whole number >= 1", "workers")
        self._variables = variables
        self._free = list(range(workers))
        self._calls: dict[int, Call] = {}
        self._waiting: deque[int] = deque()
        self._deaths: dict[int, int] = {}
        self._workers: list[_Worker] = []
        self._tickets = count()

    def start(self, module: str) -> None:
        """Start all workers before there are calls; each imports a module meanwhile."""
        while self._free:
            self._start(module)

    def submit(self, call: Call) -> int:
        """Queue a call for the next free worker; return its ticket."""
        ticket = next(self._tickets)
        self._calls[ticket] = call
        self._waiting.append(ticket)
        self._employ()
        return ticket

    def next(self) -> tuple[int, Outcome]:
        """Wait until a call is done; return its ticket and outcome."""
        while True:
            connections = {worker.connection: worker for worker in self._workers}
            ready = wait(list(connections))[0]
            if done := self._collect(connections[ready]):  # type: ignore[index]
                return done

    def close(self) -> None:
        """End all workers, and drop the calls that are not done."""
        while self._workers:
            self._workers.pop().end()

    def _employ(self) -> None:
        """Give waiting calls to idle workers, then to new ones."""
        idle = [worker for worker in self._workers if worker.ticket is None]
        while self._waiting and (idle or self._free):
            worker = idle.pop() if idle else self._start()
            ticket = self._waiting.popleft()
            call = self._calls[ticket]
            content = cloudpickle.dumps((call.function, call.arguments))
            worker.give(ticket, pickle.dumps((CURRENT_FOLDER.folders, content)))

    def _start(self, module: str | None = None) -> _Worker:
        slot = self._free.pop(0)
        variables = self._variables[slot % len(self._variables)] if self._variables else {}
        worker = _Worker(slot, variables, module)
        self._workers.append(worker)
        return worker

    def _collect(self, worker: _Worker) -> tuple[int, Outcome] | None:
        """Take a worker's outcome and give it the next call, or replace it if it died."""
        outcome, ticket = worker.outcome(), worker.ticket
        worker.ticket = None
        if outcome is None:
            outcome = self._replace(worker, ticket)
        self._employ()
        if outcome is None or ticket is None:
            return None
        del self._calls[ticket]
        return ticket, outcome

    def _replace(self, dead: _Worker, ticket: int | None) -> Outcome | None:
        """Free the slot of a dead worker and queue its call again; after too many deaths, return the call's error."""
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
            f"{_cause_of_death(dead.process.exitcode)}: give the workers more memory, or use fewer",
            "workers",
        )
        return Outcome(False, error)


def _cause_of_death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"of signal {signal.Signals(-code).name}"
    return f"with exit code {code}"


def _work(connection: "Connection[Any, Any]", variables: Mapping[str, str], module: str | None) -> None:
    """Import a module, then compute calls until the parent closes the connection."""
    os.environ.update(variables)  # before torch is loaded
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(Exception):  # the first call that needs the module reports it
        if module is not None:
            import_module(module)
    with suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_outcome(connection.recv_bytes()))


def _outcome(task: bytes) -> bytes:
    try:
        folders, content = pickle.loads(task)
        CURRENT_FOLDER.allow(folders)  # the call may be of a class that the parent found there
        function, arguments = pickle.loads(content)
        return pickle.dumps((True, function(*arguments)))
    except Exception as error:
        return pickle.dumps((False, picklable(error)))


def picklable(error: Exception) -> Exception:
    """Return an error that can be pickled: the error itself, or a RuntimeError with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, for whatever reason."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that do not receive Ctrl-C: the parent does, and ends them."""
    resource_tracker.ensure_running()  # otherwise multiprocessing starts it later and unblocks Ctrl-C
    before: Iterable[int] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Start Python processes that do not import from the current folder, which may be a stranger's.

    A worker gets the search path of its parent. One thread at a time may be inside: `_without_main` holds the lock.
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

    One thread at a time may be inside: a second one would take the empty module for the script, and restore that.
    """
    with _MAIN:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main

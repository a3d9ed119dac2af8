"""Workers behind any `concurrent.futures` executor, and the executor of a Dask cluster."""

import logging
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from functools import partial
from importlib import import_module, metadata
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from radii.errors import MissingExtraError, ParameterError, RunWarning
from radii.workers.pool import Call, Outcome, WorkerError

SILENCE = 20.0
"""Seconds without any answer before a warning, or longer if tasks take longer."""
TIMEOUT = 30.0
"""Seconds that a Dask scheduler may take to answer."""
RESUME = "Finished rows are saved: run the same command or call to resume"


def expect_same_version(theirs: str) -> None:
    """Raise a WorkerError for a worker that runs another version of radii."""
    ours = metadata.version("radii")
    if theirs != ours:
        raise WorkerError(
            f"a worker runs radii {theirs}, this is {ours}: install the same version on every worker", "executor"
        )


class ExecutorPool:
    """The workers behind an executor, such as a process pool, Dask, MPI or Parsl. Only its `submit` is used."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._name = type(executor).__name__
        self._tickets = count()
        self._calls: dict[int, tuple[Call, Future[Any]]] = {}
        self._done: SimpleQueue[int] = SimpleQueue()
        self._longest = 0.0
        """The longest wait for an answer, in seconds."""

    def expect_radii(self) -> None:
        """Check a worker's version of radii before sending work: Dask's workers die if they cannot unpickle a task."""
        self.submit(Call("the check of the radii version", metadata.version, ("radii",)))
        expect_same_version(self.next()[1].value())

    def submit(self, call: Call) -> int:
        """Send a call to the executor; return its ticket."""
        ticket = next(self._tickets)
        future = self._or_failed(call, lambda: self._executor.submit(call.function, *call.arguments))
        self._calls[ticket] = (call, future)
        future.add_done_callback(lambda _: self._done.put(ticket))
        return ticket

    def next(self) -> tuple[int, Outcome]:
        """Wait until a call is done; return its ticket and outcome."""
        began = time.monotonic()
        while (ticket := self._answered()) not in self._calls:
            pass  # the call was answered before
        self._longest = max(self._longest, time.monotonic() - began)
        call, future = self._calls.pop(ticket)
        return ticket, Outcome(True, self._or_failed(call, partial(_result, future)))

    def close(self) -> None:
        """Cancel the calls that have not begun."""
        for _, future in self._calls.values():
            future.cancel()

    def _answered(self) -> int:
        """Wait until a call is done; warn if no worker answers, and again after twice the time."""
        patience, waited = max(SILENCE, 2 * self._longest), 0.0
        while True:
            try:
                return self._done.get(timeout=patience)
            except Empty:
                waited += patience
                patience = waited
                warnings.warn(
                    f"no worker has answered for {waited:.0f} s, {len(self._calls)} tasks are waiting: check that the "
                    f"workers of {self._name} run; the work continues when one answers",
                    RunWarning,
                    stacklevel=2,
                )

    def _or_failed(self, call: Call, function: Callable[[], Any]) -> Any:
        """Call a function of the executor; raise its errors as a WorkerError. Errors of tasks are in their results."""
        try:
            return function()
        except CancelledError as error:
            raise WorkerError(
                f"{self._name} dropped {call.name}: it was shut down, or lost its scheduler. {RESUME}", "executor"
            ) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".rstrip(": ")
            raise WorkerError(
                f"{self._name} failed at {call.name} ({reason}): it was shut down, or its workers died or run another "
                f"radii version. {RESUME}",
                "executor",
            ) from error


def _result(future: Future[Any]) -> Any:
    """Return the result of a call. What a worker raises to end itself does not end this process."""
    error = future.exception()
    if error is not None and not isinstance(error, Exception):
        raise RuntimeError(f"a worker raised {type(error).__name__}") from error
    return future.result()


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """Connect to the Dask cluster whose scheduler is at `address`, and yield its executor.

    If a worker dies, Dask gives its tasks to others; the third death at one task is an error. If no worker is left,
    tasks wait for new ones; if the scheduler ends, they are cancelled.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError("A cluster needs Dask, which is not installed.", "dask", "cluster") from error
    try:
        _expect_port(address)  # without a valid port Dask tries for ever
        client = _within(2 * TIMEOUT, partial(distributed.Client, address, timeout=TIMEOUT, set_as_default=False))
    except Exception as error:  # another kind of server may answer anything
        raise ParameterError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}), expected an address such as "
            "tcp://host:8786: start one with `dask scheduler`",
            "cluster",
        ) from error
    with _quiet("distributed.client"), client, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield client.get_executor(pure=False)


def _expect_port(address: str) -> None:
    match = re.fullmatch(r".+:(\d{1,5})/?", address, re.ASCII)
    if not match or not 0 < int(match[1]) < 1 << 16:
        raise ValueError("no port")


def _within(seconds: float, connect: Callable[[], Any]) -> Any:
    """Call a function; raise a TimeoutError after some seconds. Dask itself may wait for ever."""
    answer: Future[Any] = Future()

    def call() -> None:
        try:
            answer.set_result(connect())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return answer.result(seconds)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence a logger of Dask: the cancelled futures say what went wrong."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before

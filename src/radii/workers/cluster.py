"""The workers of a Dask cluster, as an executor."""

import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from radii.errors import ParameterError

TIMEOUT = 30.0
"""Seconds that a scheduler may take to answer."""


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """The executor of the Dask cluster whose scheduler is at `address`.

    A worker that dies is Dask's concern: its tasks are computed by others, and the third death at one task ends them.
    Where none is left they wait for new ones; where the scheduler ends they are cancelled.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise ParameterError("a cluster needs Dask: pip install 'radii[dask]'", "cluster") from error
    try:
        _expect_port(address)  # without a possible one Dask tries for ever
        client = _within(2 * TIMEOUT, partial(distributed.Client, address, timeout=TIMEOUT, set_as_default=False))
    except Exception as error:  # where another kind of server answers, also those of what it says
        raise ParameterError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}), expected an address such as "
            "tcp://host:8786: start one with `dask scheduler`",
            "cluster",
        ) from error
    with _quiet("distributed.client"), client, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield client.get_executor(pure=False)


def _expect_port(address: str) -> None:
    found = re.fullmatch(r".+:(\d{1,5})/?", address, re.ASCII)
    if not found or not 0 < int(found[1]) < 1 << 16:
        raise ValueError("no port")


def _within(seconds: float, connect: Callable[[], Any]) -> Any:
    """What a call returns; a TimeoutError after some time, since Dask waits for ever where nobody says a word."""
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
    """A logger that says nothing: what goes wrong with a scheduler is told by the futures that it cancels."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before

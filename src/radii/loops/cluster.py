"""The workers of a Dask cluster, as an executor."""

import logging
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from radii.errors import ParameterError

TIMEOUT = "30s"
"""How long a scheduler may take to answer."""


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
        client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ParameterError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}), expected an address such as "
            "tcp://host:8786: start one with `dask scheduler`",
            "cluster",
        ) from error
    with _quiet("distributed.client"), client, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield client.get_executor(pure=False)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """A logger that says nothing: what goes wrong with a scheduler is told by the futures that it cancels."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before

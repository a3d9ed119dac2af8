"""A Dask cluster on this machine whose workers can be killed, and certificates without their times."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from radii.experiment import certificates
from radii.experiment.certificates import Row


class DaskCluster:
    """Worker processes of one thread each."""

    def __init__(self, cluster: Any) -> None:
        self.address: str = cluster.scheduler_address
        self._cluster = cluster

    def kill(self, number: int) -> None:
        """End a worker process by force, another one if that one has just been; Dask starts a new one in its place."""
        running = [nanny.pid for nanny in self._cluster.workers.values() if nanny.pid is not None]
        os.kill(running[number % len(running)], signal.SIGKILL)


@contextmanager
def dask_cluster(workers: int = 2) -> Iterator[DaskCluster]:
    """A scheduler and its workers; they end with the block."""
    local: Any = import_module("distributed").LocalCluster
    with local(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as cluster:
        yield DaskCluster(cluster)


def without_times(path: Path) -> list[Row]:
    """The rows of a certificate file, every time set to zero; their checksums were checked."""
    return [replace(row, seconds=0.0) for row in certificates.read(path).rows]

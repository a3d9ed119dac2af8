"""A Dask cluster on this machine whose workers can be killed, and rows of certificates without times."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from radii.runs import certificates
from radii.runs.certificates import Row
from tools.processes import wait_for


class DaskCluster:
    """Worker processes of one thread each."""

    def __init__(self, cluster: Any) -> None:
        self.address: str = cluster.scheduler_address
        self._cluster = cluster

    def kill(self, number: int) -> None:
        """Kill a worker process; Dask starts a new one in its place."""
        running = [nanny.pid for nanny in self._cluster.workers.values() if nanny.pid is not None]
        os.kill(running[number % len(running)], signal.SIGKILL)


@contextmanager
def dask_cluster(workers: int = 2) -> Iterator[DaskCluster]:
    """Start a scheduler and workers that end with the block."""
    dask, local = import_module("dask"), import_module("distributed").LocalCluster
    # By default a local cluster gives up a worker that takes long to be replaced; `dask worker` does not.
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with patient, local(n_workers=workers, threads_per_worker=1, **quiet) as cluster:
        yield DaskCluster(cluster)


class DaskScheduler:
    """A scheduler in a process of its own, without workers."""

    def __init__(self, folder: Path) -> None:
        found = folder / "scheduler.json"
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--no-show", "--port", "0"]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen([*command, "--scheduler-file", str(found)], stdout=log, stderr=log)
        wait_for(lambda: found.is_file() and bool(found.read_text()))
        self.address: str = json.loads(found.read_text())["address"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def dask_scheduler() -> Iterator[DaskScheduler]:
    """Start a scheduler without workers that ends with the block."""
    with TemporaryDirectory() as folder:
        scheduler = DaskScheduler(Path(folder))
        try:
            yield scheduler
        finally:
            scheduler.kill()


def without_times(path: Path) -> list[Row]:
    """Return the rows of a certificate file with every time set to zero, after checking their checksums."""
    return [replace(row, seconds=0.0) for row in certificates.read(path).rows]

"""The workers of a cluster for the commands that can use them."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter

Cluster = Annotated[
    str | None,
    Parameter(help="The address of a Dask scheduler, such as tcp://host:8786, whose workers compute instead."),
]


@contextmanager
def executor_at(cluster: str | None, workers: int | None) -> Iterator[Executor | None]:
    """The workers of a cluster, if one is named; then there are none of this machine."""
    if cluster is None:
        yield None
        return
    if workers is not None:
        raise ValueError(f"--workers {workers} are processes of this machine: leave it out, or --cluster {cluster}")
    from radii.workers.cluster import cluster_executor

    with cluster_executor(cluster) as executor:
        yield executor

"""A real Dask cluster of two worker processes, one of which is killed."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.errors import ParameterError, RunWarning
from radii.runs import certificates
from radii.runs.run import Run
from radii.training.soft_labels import soft_labels
from radii.workers import cluster as cluster_module
from radii.workers.cluster import cluster_executor
from radii.workers.pool import WorkerError
from tools.cluster import DaskCluster, dask_cluster, dask_scheduler, without_times


@pytest.fixture
def config(digits_run: Callable[..., Run]) -> CertificationConfig:
    fixed = certifiers.create("fixed", selection=100, estimation=3000)
    return CertificationConfig(run=digits_run().path, certifier=fixed, every=20, engine="torch")


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with dask_cluster() as cluster:
        yield cluster


@pytest.mark.slow
def test_two_dask_workers_one_killed_write_the_same_file(config: CertificationConfig, cluster: DaskCluster) -> None:
    path = certify_run(config, workers=1)
    alone, header = without_times(path), certificates.read(path).header
    path.unlink()
    shown: list[Any] = []
    with cluster_executor(cluster.address) as executor:

        def on_image(_: int, row: Any) -> None:
            shown.append(row)
            if len(shown) == 5:
                cluster.kill(0)

        assert certify_run(config, executor=executor, on_image=on_image) == path
    assert without_times(path) == alone
    assert certificates.read(path).header == header
    assert [replace(row, seconds=0.0) for row in shown[1:]] == alone


@pytest.mark.slow
def test_soft_labels_by_two_dask_workers_one_killed_are_the_same(
    config: CertificationConfig, cluster: DaskCluster
) -> None:
    run = Run(config.run)
    alone = soft_labels(run, samples=8, engine="torch").read_bytes()
    for path in run.path.glob("soft-labels*"):
        path.unlink()
    seen: list[int] = []
    with cluster_executor(cluster.address) as executor:

        def on_image(done: int, _: int) -> None:
            seen.append(done)
            if done == 300:
                cluster.kill(0)

        made = soft_labels(run, samples=8, engine="torch", executor=executor, on_image=on_image)
    assert made.read_bytes() == alone
    assert seen == list(range(1, 1348))


@pytest.mark.slow
def test_cluster_without_workers_warns_and_one_without_scheduler_is_an_error(
    config: CertificationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "SILENCE", 1.0)
    with dask_scheduler() as scheduler, cluster_executor(scheduler.address) as executor:
        gone = threading.Timer(3.0, scheduler.kill)
        gone.start()
        with (
            pytest.warns(RunWarning, match=r"no worker has answered for \d s, 1 tasks are waiting"),
            pytest.raises(WorkerError, match="dropped the check of the radii version: .* lost its scheduler"),
        ):
            certify_run(config, workers=2, executor=executor)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "", "http://h:1", "tcp://h:port", "tcp://h:99999"])
def test_missing_scheduler_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.workers.cluster.TIMEOUT", 1.0)
    with (
        pytest.raises(ParameterError, match=r"no Dask scheduler answers at .*expected an address such as tcp://"),
        cluster_executor(address),
    ):
        pass


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_another_kind_of_server_is_reported(words: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.workers.cluster.TIMEOUT", 1.0)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(words)
                ended.wait(10)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with (
            pytest.raises(ParameterError, match="no Dask scheduler answers at"),
            cluster_executor(f"tcp://127.0.0.1:{server.getsockname()[1]}"),
        ):
            pass
        ended.set()
        thread.join(10)

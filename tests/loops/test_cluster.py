"""A real Dask cluster of two worker processes, one of which is killed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radii import certifiers
from radii.errors import ParameterError
from radii.experiment import certificates
from radii.experiment.recipe import Recipe, Training
from radii.loops.certify import CertificationConfig, certify_run
from radii.loops.cluster import cluster_executor
from radii.loops.train import train
from tools.cluster import dask_cluster, without_times


@pytest.fixture
def config(tmp_path: Path) -> CertificationConfig:
    training = Training(epochs=1, images_per_step=128, learning_rate=0.05)
    run = train(Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training), tmp_path / "run")
    fixed = certifiers.create("fixed", selection=100, estimation=3000)
    return CertificationConfig(run=run.path, certifier=fixed, every=20, engine="torch")


@pytest.mark.slow
def test_two_dask_workers_one_killed_write_the_same_file(config: CertificationConfig) -> None:
    path = certify_run(config, workers=1)
    alone, header = without_times(path), certificates.read(path).header
    path.unlink()
    shown: list[Any] = []
    with dask_cluster() as cluster, cluster_executor(cluster.address) as executor:

        def on_image(_: int, row: Any) -> None:
            shown.append(row)
            if len(shown) == 5:
                cluster.kill(0)

        assert certify_run(config, executor=executor, on_image=on_image) == path
    assert without_times(path) == alone
    assert certificates.read(path).header == header
    assert [replace(row, seconds=0.0) for row in shown[1:]] == alone


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere"])
def test_no_scheduler_is_a_sentence(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.loops.cluster.TIMEOUT", "1s")
    with (
        pytest.raises(ParameterError, match=r"no Dask scheduler answers at .*expected an address such as tcp://"),
        cluster_executor(address),
    ):
        pass

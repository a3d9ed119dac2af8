"""Certificates do not depend on the executor that computes them."""

from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from radii import certifiers
from radii.certification.certify import CertificationConfig, CertificationSession, certify_image, certify_run
from radii.runs import certificates
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.loop import train


class Inline(Executor):
    """The smallest executor: runs a task when it is submitted."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def config(tmp_path: Path) -> CertificationConfig:
    training = Training(epochs=1, images_per_step=128, learning_rate=0.05)
    run = train(Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training), tmp_path / "run")
    fixed = certifiers.create("fixed", selection=10, estimation=100)
    return CertificationConfig(run=run.path, certifier=fixed, every=60, engine="torch")


def rows(path: Path) -> list[tuple[Any, ...]]:
    return [(r.index, r.prediction, r.radius, r.samples, dict(r.counts)) for r in certificates.read(path).rows]


@pytest.mark.slow
def test_any_executor_gives_the_same_certificates_in_order(config: CertificationConfig) -> None:
    path = certify_run(config, workers=1)
    expected = rows(path)
    pools: list[Executor] = [Inline(), ThreadPoolExecutor(2), ProcessPoolExecutor(2, get_context("spawn"))]
    for pool in pools:
        path.unlink()
        with pool:
            assert rows(certify_run(config, executor=pool)) == expected
    assert [row[0] for row in expected] == list(range(0, 450, 60))


def test_a_certificate_is_a_function_of_configuration_and_index(config: CertificationConfig) -> None:
    pinned = CertificationSession(config).config
    first, again = certify_image(pinned, 60), certify_image(pinned, 60)
    assert (first.radius, first.counts) == (again.radius, again.counts)


def test_a_worker_refuses_other_weights(config: CertificationConfig) -> None:
    pinned = CertificationSession(config).config
    training = Training(epochs=1, images_per_step=64, learning_rate=0.05)
    other = train(
        Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training), config.run.with_name("other")
    )
    Run(config.run).weights_file.write_bytes(other.weights_file.read_bytes())
    with pytest.raises(RunError, match="the weights of .* changed since the certification began"):
        CertificationSession(pinned)

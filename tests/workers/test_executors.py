"""Certificates do not depend on who counts the votes."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch

import radii
from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run, open_certification
from radii.errors import ParameterError
from radii.runs import certificates
from radii.runs.run import Run
from radii.workers.scheduler import Report
from radii.workers.voter import Missing, Shipped, count_votes


class Inline(Executor):
    """The smallest executor: runs a task when it is submitted."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def config(digits_run: Callable[..., Run]) -> CertificationConfig:
    fixed = certifiers.create("fixed", selection=10, estimation=100)
    return CertificationConfig(run=digits_run().path, certifier=fixed, every=60, engine="torch")


def rows(path: Path) -> list[tuple[Any, ...]]:
    return [(r.index, r.prediction, r.radius, r.samples, dict(r.counts)) for r in certificates.read(path).rows]


@pytest.mark.slow
def test_any_executor_gives_the_same_certificates_in_order(config: CertificationConfig) -> None:
    path = certify_run(config, workers=1)
    expected = rows(path)
    pools: list[Executor | None] = [Inline(), ThreadPoolExecutor(2), ProcessPoolExecutor(2, get_context("spawn")), None]
    for pool in pools:
        path.unlink()
        assert rows(certify_run(config, workers=2, executor=pool)) == expected
        if pool is not None:
            pool.shutdown()
    assert [row[0] for row in expected] == list(range(0, 450, 60))


def test_classifier_is_sent_to_a_worker_that_does_not_have_it(config: CertificationConfig) -> None:
    certification = open_certification(config)
    program = certification.program(60)
    task = radii_task(program.image, program.address, next(program.steps))
    shipped = Shipped(certification.classifier)
    assert isinstance(count_votes(shipped.token, [task]), Missing)
    report = count_votes(shipped.token, [task], shipped.shipment)
    assert isinstance(report, Report)
    assert report.error is None
    assert (report.answers[0] == certification.classifier.count([task])[0]).all()
    assert isinstance(count_votes(shipped.token, [task]), Report)


def radii_task(*parts: Any) -> Any:
    from radii.smoothing.questions import Task

    return Task(*parts)


def test_files_of_an_engine_travel_with_the_classifier(config: CertificationConfig, tmp_path: Path) -> None:
    classifier = open_certification(config).classifier
    classifier.artefact = tmp_path / "openvino_int8-12345678"
    classifier.artefact.with_suffix(".bin").write_bytes(b"weights")
    opened = Shipped(classifier).shipment.open()
    assert opened.artefact is not None
    assert opened.artefact.parent != tmp_path
    assert opened.artefact.with_suffix(".bin").read_bytes() == b"weights"


def test_worker_with_other_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent_nets.py").write_text("from torch import nn\n\nclass Net(nn.Flatten):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from sent_nets import Net  # type: ignore[import-not-found]

    shipment = Shipped(radii.SmoothedClassifier(Net(), sigma=0.5, classes=4)).shipment
    assert shipment.open().classes == 4
    changed = replace(shipment, code=dict.fromkeys(shipment.code, "0" * 64))
    with pytest.raises(ParameterError, match="the code of sent_nets:Net changed since the certification began"):
        changed.open()
    sys.modules.pop("sent_nets")


class Backend(Executor):
    """A worker backend in one file: an executor that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        return Inline().submit(fn, *args, **kwargs)


def test_worker_backend_is_any_executor_class() -> None:
    smoothed = radii.SmoothedClassifier(torch.nn.Flatten(), sigma=0.5, classes=4)
    data: Sequence[Any] = (torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 2]))
    backend = Backend()
    given = {"seed": 0, "selection": 10, "estimation": 100}
    found = radii.certify_dataset(smoothed, tuple(data), executor=backend, **given)  # type: ignore[arg-type]
    alone = radii.certify_dataset(smoothed, tuple(data), workers=1, **given)  # type: ignore[arg-type]
    plain = [[replace(row, seconds=0.0, environments=()) for row in each.certificates.rows] for each in (found, alone)]
    assert plain[0] == plain[1]
    assert backend.calls >= 2

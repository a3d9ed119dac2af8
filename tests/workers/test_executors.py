"""Certificates do not depend on who counts the votes."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
from tools.processes import warm_context


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
    pools: list[Executor | None] = [Inline(), ThreadPoolExecutor(2), ProcessPoolExecutor(2, warm_context()), None]
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


SENT = """
from radii.smoothing import noise
from torch import nn

class Net(nn.Flatten):
    pass

class Gaussian(noise.Gaussian):
    pass
"""


def test_worker_with_other_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent_nets.py").write_text(SENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    from sent_nets import Gaussian, Net  # type: ignore[import-not-found]

    classifier = radii.SmoothedClassifier(Net(), noise=Gaussian(0.5), classes=4)
    shipment = Shipped(classifier).shipment
    assert shipment.open().classes == 4
    assert shipment.code.keys() == {"sent_nets:Net", "sent_nets:Gaussian"}
    for name in shipment.code:
        changed = replace(shipment, code={**shipment.code, name: "0" * 64})
        with pytest.raises(ParameterError, match=f"the code of {name} changed since the certification began"):
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
    given: dict[str, Any] = {"seed": 0, "selection": 10, "estimation": 100}
    found = radii.certify_dataset(smoothed, tuple(data), executor=backend, **given)
    alone = radii.certify_dataset(smoothed, tuple(data), workers=1, **given)
    plain = [[replace(row, seconds=0.0, environments=()) for row in each.certificates.rows] for each in (found, alone)]
    assert plain[0] == plain[1]
    assert backend.calls >= 2


REPORTS: dict[str, Callable[[Report], object]] = {
    "seconds": lambda report: replace(report, seconds=float("nan")),
    "seconds that no file can hold": lambda report: replace(report, seconds=-1e12),
    "environment": lambda report: replace(report, environment={}),
    "environment that is no JSON": lambda report: replace(report, environment={**report.environment, "x": object()}),
    "environment with NaN": lambda report: replace(report, environment={**report.environment, "x": float("nan")}),
    "environment with a first row": lambda report: replace(report, environment={**report.environment, "first_row": 7}),
    "environment of megabytes": lambda report: replace(report, environment={**report.environment, "x": "y" * 10**7}),
    "environment with no batch": lambda report: replace(report, environment={**report.environment, "batch_size": 0}),
    "environment with a word": lambda report: replace(report, environment={**report.environment, "batch_size": "x"}),
    "answers": lambda report: replace(report, answers=None),  # type: ignore[arg-type]
    "error": lambda report: replace(report, error="failed"),  # type: ignore[arg-type]
    "name": lambda report: replace(report, worker=None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REPORTS)
def test_answer_that_is_not_a_report_is_refused_and_the_file_stays_readable(
    what: str, config: CertificationConfig
) -> None:
    with pytest.raises(ParameterError, match=f"a worker's report has no valid {what.split()[0]}"):
        certify_run(config, workers=1, executor=Changing(REPORTS[what]))
    expected = rows(certify_run(config, workers=1))
    assert [row[0] for row in expected] == list(range(0, 450, 60))


class Changing(Inline):
    """Changes the reports of its workers."""

    def __init__(self, change: Callable[[Report], object]) -> None:
        self.change = change

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        answered: Future[Any] = Future()
        result = future.result()
        answered.set_result(self.change(result) if isinstance(result, Report) else result)
        return answered


def test_answers_that_took_no_time_are_true(config: CertificationConfig) -> None:
    instant = Changing(lambda report: replace(report, seconds=5e-324))
    expected = [row[:-1] for row in rows(certify_run(config, workers=1, executor=instant))]
    assert [row[0] for row in expected] == list(range(0, 450, 60))


def test_worker_that_never_keeps_the_classifier_is_an_error(config: CertificationConfig) -> None:
    with pytest.raises(ParameterError, match="asks for the classifier that it was sent"):
        certify_run(config, workers=1, executor=Changing(lambda _: Missing()))


def test_model_that_ends_an_iteration_is_an_error_of_its_own(config: CertificationConfig) -> None:
    with pytest.raises(RuntimeError, match="the classifier raised a StopIteration"):
        certify_run(config, workers=1, executor=Changing(lambda report: replace(report, error=StopIteration(1))))


def test_reports_that_an_executor_mixes_up_are_refused(config: CertificationConfig) -> None:
    """A cache that returns the first report again and again: its votes are of another image."""
    reports: list[Report] = []

    def first(report: Report) -> Report:
        reports.append(report)
        return reports[0]

    with pytest.raises(ParameterError, match="a worker answered other questions than it got"):
        certify_run(config, workers=1, executor=Changing(first))


def test_masked_counts_are_checked_whole(config: CertificationConfig) -> None:
    def masked(report: Report) -> Report:
        answers = [np.ma.masked_array(2 * answer, mask=answer == answer.max()) for answer in report.answers]
        return replace(report, answers=answers)

    with pytest.raises(ParameterError, match="it miscounts"):
        certify_run(config, workers=1, executor=Changing(masked))

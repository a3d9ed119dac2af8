"""How the work is spread over workers never changes a certificate."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from radii.workers.blocks import Request, Share
from radii.workers.remote import Report, work

from radii import certifiers
from radii.certification.certify import CertificationConfig, CertificationSession, certify_run
from radii.runs import certificates
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training.loop import train
from radii.workers import pace, spread
from radii.workers.pool import WorkerError


class Counting(Executor):
    """Runs a task when it is submitted, and keeps what it was; `change` may edit a report."""

    def __init__(self, change: Callable[[Report], Report] = lambda report: report) -> None:
        self.jobs: list[Any] = []
        self.change = change

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        found = fn(*args, **kwargs)
        if fn is work:
            self.jobs.append(args[2])
            found = self.change(found)
        future.set_result(found)
        return future


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    training = Training(epochs=2, images_per_step=128, learning_rate=0.05)
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training)
    return train(recipe, tmp_path_factory.mktemp("runs") / "run")


def config(run: Run, certifier: str = "fixed", **fields: Any) -> CertificationConfig:
    chosen = certifiers.create(certifier, **fields)
    return CertificationConfig(run=run.path, certifier=chosen, every=90, engine="torch", batch_size=32)


def without_times(path: Path) -> list[Any]:
    return [replace(row, seconds=0.0) for row in certificates.read(path).rows]


@pytest.mark.parametrize(
    ("name", "fields", "divided"),
    [
        ("fixed", {"selection": 10, "estimation": 1000}, True),
        ("fixed", {"selection": 10, "estimation": 1000, "radius": 0.25}, False),  # decides after every block
        ("planned", {"pilot": 50, "most_samples": 2000}, True),
        ("sequential", {"radii": (0.0, 0.25, 0.5), "most_samples": 3000}, True),
        ("soft", {"estimation": 500}, False),  # sums of floating-point numbers depend on their order
    ],
)
def test_blocks_spread_over_workers_give_the_same_certificates(
    run: Run, name: str, fields: dict[str, Any], divided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certify_run(config(run, name, **fields), workers=1)
    alone = without_times(path)
    path.unlink()
    monkeypatch.setattr(pace, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(pace, "FIRST_BLOCKS", 2)
    pool = Counting()
    assert without_times(certify_run(config(run, name, **fields), workers=64, executor=pool)) == alone
    path.unlink()
    assert any(isinstance(job, Share) for job in pool.jobs) == divided


def test_shares_are_the_blocks_of_their_request() -> None:
    request = Request(3, 7, 1000)
    for size in (1, 32, 100, 333, 999, 5000):
        shares = request.shares(size, 32)
        assert sum(share.samples for share in shares) == 1000
        block = 7
        for share in shares:
            assert (share.stage, share.first_block) == (3, block)
            assert share is shares[-1] or share.samples % 32 == 0
            block += -(-share.samples // 32)


def test_a_worker_of_another_radii_is_refused_and_what_is_written_is_kept(run: Run) -> None:
    wanted = config(run, selection=10, estimation=200)
    reports: list[Report] = []

    def change(report: Report) -> Report:
        reports.append(report)
        versions = {**report.environment["versions"], "radii": "0.0.1"}
        return replace(report, environment={**report.environment, "versions": versions}) if len(reports) > 4 else report

    with pytest.raises(WorkerError, match=r"a worker runs radii 0.0.1, this is .*: install the same version"):
        certify_run(wanted, workers=1, executor=Counting(change))
    path = certify_run(wanted, workers=1)
    assert len(certificates.read(path).rows) == 5
    path.unlink()


def test_a_worker_that_rounds_otherwise_is_recorded_with_its_first_row(run: Run) -> None:
    wanted, reports = config(run, selection=10, estimation=200), []

    def change(report: Report) -> Report:
        reports.append(report)
        set_ = "another" if len(reports) in (2, 4) else report.environment["instruction_set"]
        return replace(report, environment={**report.environment, "instruction_set": set_})

    path = certify_run(wanted, workers=1, executor=Counting(change))
    noted = certificates.read(path).header["environments"]
    assert [(each["first_row"], each["instruction_set"] == "another") for each in noted] == [(0, False), (1, True)]
    path.unlink()


def test_a_run_that_a_worker_cannot_read_is_sent_to_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The worker is told a path that exists only here; its data are not there either."""
    wanted = config(run, selection=10, estimation=200)
    path = certify_run(wanted, workers=1)
    alone = without_times(path)
    path.unlink()
    session = CertificationSession(wanted)
    here = session.shipment()
    elsewhere = replace(session.config, run=tmp_path / "not here")
    monkeypatch.setattr(type(session), "shipment", lambda _: replace(here, config=elsewhere))
    session.config = elsewhere
    rows = list(spread.certificates(session, range(0, 450, 90), 2, Counting()))
    assert [replace(row, seconds=0.0) for row in rows] == alone
    assert not (tmp_path / "not here").exists()


def test_sent_weights_that_are_others_are_refused(run: Run, tmp_path: Path) -> None:
    session = CertificationSession(config(run, selection=10, estimation=200))
    sent = session.shipment()
    weights = sent.files["model.safetensors"]
    changed = replace(sent, files={**sent.files, "model.safetensors": weights[:-1] + b"?"})
    report = work(replace(session.config, run=tmp_path / "not here"), 0, Share(Request(0, 0, 10)), changed)
    assert not report.good
    assert "the weights of" in str(report.found)


def kill_worker(*_: Any) -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_broken_pool_is_a_sentence_and_what_is_written_is_kept(run: Run) -> None:
    wanted, written = config(run, selection=10, estimation=200), []
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:

        def on_image(_: int, row: Any) -> None:
            written.append(row)
            if len(written) == 2:
                pool.submit(kill_worker)

        with pytest.raises(WorkerError, match=r"ProcessPoolExecutor failed at image \d+ \(BrokenProcessPool: .*kept"):
            certify_run(wanted, workers=1, executor=pool, on_image=on_image)
    path = next(run.certificates.glob("*.tsv"))
    assert len(certificates.read(path).rows) == len(written) - 1 > 0
    path.unlink()

"""One worker process per GPU, with a number of GPUs that is only pretended."""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

import radii
from radii import certifiers
from radii.certification import memory
from radii.certification.certify import Certification, CertificationConfig, certify_run
from radii.certification.load import stays_off
from radii.certification.memory import voting_device, worker_count
from radii.certification.population import certify_run_population
from radii.certification.recertify import certify_update
from radii.certification.update import Update, open_old
from radii.certification.verify import verify_run
from radii.certifiers.population import OnePass
from radii.datasets import samples_of
from radii.device import default_workers, usable_cores, worker_variables
from radii.engines import SmoothedClassifier
from radii.interop.onnx import import_onnx
from radii.runs import certificates
from radii.runs import population as files
from radii.runs.certificates import POLYNOMIALS
from radii.runs.run import Run
from radii.smoothing.addresses import PHILOX
from radii.training import weights
from radii.training.soft_labels import soft_labels
from radii.workers import backends
from radii.workers.pool import Call, ProcessPool
from radii.workers.voter import Shipped, worker_device


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    for name in ("CUDA_VISIBLE_DEVICES", "RADII_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("count", "visible", "named", "expected"),
    [
        (0, None, None, []),
        (1, None, None, []),
        (3, None, None, ["0", "1", "2"]),
        (2, "5,7", None, ["5", "7"]),
        (2, "GPU-a,GPU-b", "cuda", ["GPU-a", "GPU-b"]),
        (3, None, "cuda:1", []),
        (3, None, "cpu", []),
    ],
)
def test_every_gpu_has_a_worker(
    count: int, visible: str | None, named: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(monkeypatch, count)
    for name, value in (("CUDA_VISIBLE_DEVICES", visible), ("RADII_DEVICE", named)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert worker_variables() == [{"CUDA_VISIBLE_DEVICES": name} for name in expected]
    on_cpu = count == 0 or named == "cpu"
    assert default_workers() == (usable_cores() if on_cpu else max(1, len(expected)))


def visible_device(_: int) -> tuple[int, str]:
    return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"]


@pytest.mark.slow
def test_workers_get_the_gpus_in_turn() -> None:
    pool = ProcessPool(3, [{"CUDA_VISIBLE_DEVICES": name} for name in ("5", "7")])
    try:
        for number in range(3):
            pool.submit(Call(f"item {number}", visible_device, (number,)))
        found = dict(pool.next()[1].value() for _ in range(3))
    finally:
        pool.close()
    assert sorted(found.values()) == ["5", "5", "7"]


@pytest.mark.parametrize(
    ("count", "named", "kind", "expected"),
    [
        (0, None, "cuda", "cpu"),
        (1, "cuda:3", "cuda", "cuda"),
        (4, "cuda:3", "cuda", "cuda:3"),
        (2, "cuda", "cuda", "cuda"),
        (2, "cpu", "cuda", "cuda"),
    ],
)
def test_a_worker_takes_the_gpu_that_it_sees(
    count: int, named: str | None, kind: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(monkeypatch, count)
    if named is not None:
        monkeypatch.setenv("RADII_DEVICE", named)
    assert str(worker_device(kind)) == expected


@pytest.mark.parametrize(("device", "expected"), [("cuda", 3), ("cuda:0", 3), ("cuda:1", 1), ("cpu", usable_cores())])
def test_a_dataset_is_certified_on_all_gpus(device: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 3)
    given: Any = SimpleNamespace(voting_device=torch.device(device))
    assert worker_count(cast(Certification, given), None, None) == expected


@pytest.mark.parametrize(
    ("named", "stream", "expected"), [("cuda", PHILOX, "cuda"), (None, PHILOX, "cpu"), ("cuda", None, "cpu")]
)
def test_a_model_on_the_cpu_is_counted_on_the_gpus_that_are_named(
    named: str | None, stream: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(monkeypatch, 2)
    if named is not None:
        monkeypatch.setenv("RADII_DEVICE", named)
    assert str(voting_device(small_classifier(), stream)) == expected


@pytest.mark.slow
def test_a_dataset_is_certified_by_workers_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a single one. Which engine is the fastest there is unknown, so `auto` is torch."""
    dataset = torch.rand(3, 1, 2, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0])
    options: dict[str, Any] = {"seed": 0, "workers": 1, "selection": 20, "estimation": 200}
    alone = radii.certify_dataset(small_classifier(), dataset, **options)
    monkeypatch.setattr(memory, "voting_device", lambda *_: torch.device("cuda"))
    monkeypatch.setattr(backends, "InProcess", None)
    elsewhere = radii.certify_dataset(small_classifier("auto"), dataset, **options)
    assert [row.counts for row in elsewhere.rows] == [row.counts for row in alone.rows]
    assert elsewhere.certificates.header["engine"] == "torch"


def small_classifier(engine: str = "torch") -> SmoothedClassifier:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    return SmoothedClassifier(model, sigma=0.25, classes=2, engine=engine)


@pytest.mark.slow
def test_a_forecast_for_gpus_times_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    certification = Certification(
        classifier=small_classifier(),
        samples=samples_of((torch.rand(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64))),
        certifier=certifiers.create("fixed", estimation=500),
        target=torch.device("cuda"),
    )
    monkeypatch.setattr(backends, "InProcess", None)
    estimate = certification.forecast(range(4))
    assert estimate is not None
    assert estimate.seconds > 0


@pytest.mark.parametrize(
    ("device", "workers", "executor", "expected"),
    [
        ("cuda", 1, None, False),
        ("cuda", 2, None, True),
        ("mps", 2, None, True),
        ("cpu", 2, None, False),
        ("cuda", 1, Executor(), True),
        ("cuda", 2, ThreadPoolExecutor(1), False),
    ],
)
def test_a_process_stays_off_the_gpus_that_others_count_on(
    device: str, workers: int, executor: Executor | None, expected: bool
) -> None:
    assert stays_off(torch.device(device), workers, executor) is expected


def pretend_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a GPU that is not there: this process fails if it opens it, and its workers find none and use the CPU."""
    monkeypatch.setattr(weights, "default_device", lambda: torch.device("cuda"))


@pytest.mark.slow
def test_a_process_with_workers_on_gpus_stays_off_them(
    digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = digits_run()
    pretend_a_gpu(monkeypatch)
    fixed = certifiers.create("fixed", selection=20, estimation=200)
    config = CertificationConfig(run=run.path, certifier=fixed, max_images=3)
    path = certify_run(config, run=run, workers=2)
    made = certificates.read(path)
    assert made.header["engine"] == "torch", "no engine of the CPU is chosen for a GPU"
    assert [(entry["device"], entry["batch_size"]) for entry in made.header["environments"]] == [("cpu", 2048)]
    assert made.header["function"]["device"] == "cpu", "its logits were computed by this process"
    result = verify_run(run, rows=None, workers=2)
    assert (result.exit_code, result.replayed, result.moved) == (0, 3, 0)
    monkeypatch.undo()
    other = certify_run(config, run=digits_run("other"), workers=1)
    assert [row.counts for row in certificates.read(other).rows] == [row.counts for row in made.rows]


@pytest.mark.slow
def test_a_process_with_workers_stays_off_the_gpus_for_updates_and_populations(
    digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, new = digits_run(), digits_run("new")
    fixed = certifiers.create("fixed", selection=20, estimation=200)
    config = CertificationConfig(run=run.path, certifier=fixed, max_images=3, engine="torch")
    old = open_old(certify_run(config, run=run, workers=1))
    config = replace(config, run=new.path, certifier=Update(samples=100))
    one_pass = CertificationConfig(run=run.path, certifier=OnePass(votes=4, training_images=5), every=100)
    pretend_a_gpu(monkeypatch)
    update = certify_update(config, old, run=new, workers=2)
    population = certify_run_population(one_pass, run=run, workers=2)
    assert verify_run(new, update, rows=None, workers=2).in_words().startswith("equal: ")
    assert verify_run(run, population, rows=None, workers=2).in_words().startswith("equal: ")
    monkeypatch.undo()
    alone = certify_update(replace(config, run=digits_run("other").path), old, workers=1)
    assert [row.counts for row in certificates.read(update).rows] == [
        row.counts for row in certificates.read(alone).rows
    ]
    again = certify_run_population(replace(one_pass, run=digits_run("another").path), workers=1)
    one, other = (files.read(path).certificates for path in (population, again))
    assert one.header[POLYNOMIALS] == other.header[POLYNOMIALS], "the votes on training pictures are the same"
    assert [row.counts for row in one.rows] == [row.counts for row in other.rows]


@pytest.mark.slow
def test_a_process_whose_workers_vote_for_soft_labels_stays_off_the_gpus(
    digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = soft_labels(digits_run(), samples=20, engine="torch")
    pretend_a_gpu(monkeypatch)
    assert soft_labels(digits_run("other"), samples=20, workers=2).read_bytes() == alone.read_bytes()


def test_an_onnx_graph_is_counted_on_the_cpu_beside_a_gpu(
    linear_onnx: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By as many workers as there are cores, in passes of a CPU's size, in this process if there is one worker."""
    run = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits")
    fixed = certifiers.create("fixed", selection=20, estimation=200)
    config = CertificationConfig(run=run.path, certifier=fixed, max_images=3)
    pretend_a_gpu(monkeypatch)
    monkeypatch.setattr(backends, "Remote", None)
    assert weights.device_for(run) == torch.device("cpu")
    path = certify_run(config, workers=1)
    made = certificates.read(path)
    assert [(entry["device"], entry["batch_size"]) for entry in made.header["environments"]] == [("cpu", 128)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the engine of the certificates runs here
        assert radii.load(run).engine == "onnx"
        assert verify_run(run, rows=None).in_words().startswith("equal: ")
    votes = soft_labels(run, samples=2, workers=1)
    assert votes.is_file()
    shipped = Shipped(radii.load(run), torch.device("cuda"))
    assert (shipped.target, shipped.shipment.device) == (torch.device("cpu"), "cpu")


def test_as_many_workers_as_cores_serve_a_model_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 3)
    assert default_workers() == 3
    assert default_workers(torch.device("cpu")) == usable_cores()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not bind processes to cores")
def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 5, 6})
    assert default_workers(torch.device("cpu")) == 3

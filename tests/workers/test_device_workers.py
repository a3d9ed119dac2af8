"""One worker process per GPU, with a number of GPUs that is only pretended."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from radii import certifiers
from radii.certification import certify
from radii.certification.certify import Certification, CertificationConfig, certify_run
from radii.certification.memory import worker_count
from radii.device import default_workers, worker_variables
from radii.runs import certificates
from radii.runs.run import Run
from radii.training import soft_labels as labels
from radii.training.soft_labels import soft_labels
from radii.workers.pool import Call, ProcessPool
from radii.workers.voter import worker_device


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
    assert default_workers() == ((os.cpu_count() or 1) if on_cpu else max(1, len(expected)))


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


@pytest.mark.parametrize(
    ("device", "expected"), [("cuda", 3), ("cuda:0", 3), ("cuda:1", 1), ("cpu", os.cpu_count() or 1)]
)
def test_a_dataset_is_certified_on_all_gpus(device: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 3)
    given: Any = SimpleNamespace(classifier=SimpleNamespace(device=torch.device(device)))
    assert worker_count(cast(Certification, given), None, None) == expected


@pytest.mark.slow
def test_a_process_with_workers_on_gpus_stays_off_them(
    digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU is only pretended: this process works on the CPU, and its workers find none."""
    run = digits_run()
    monkeypatch.setattr(certify, "default_device", lambda: torch.device("cuda"))
    fixed = certifiers.create("fixed", selection=20, estimation=200)
    config = CertificationConfig(run=run.path, certifier=fixed, max_images=3)
    path = certify_run(config, run=run, workers=2)
    made = certificates.read(path)
    assert made.header["engine"] == "torch", "no engine of the CPU is chosen for a GPU"
    assert [(entry["device"], entry["batch_size"]) for entry in made.header["environments"]] == [("cpu", 2048)]
    monkeypatch.undo()
    other = certify_run(config, run=digits_run("other"), workers=1)
    assert [row.counts for row in certificates.read(other).rows] == [row.counts for row in made.rows]


@pytest.mark.slow
def test_a_process_whose_workers_vote_for_soft_labels_stays_off_the_gpus(
    digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU is only pretended, as above."""
    alone = soft_labels(digits_run(), samples=20, engine="torch")
    monkeypatch.setattr(labels, "default_device", lambda: torch.device("cuda"))
    assert soft_labels(digits_run("other"), samples=20, workers=2).read_bytes() == alone.read_bytes()

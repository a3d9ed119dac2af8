"""One worker process per GPU, with a number of GPUs that is only pretended."""

import os

import pytest
import torch

from radii.device import default_workers, worker_variables
from radii.workers.pool import Call, ProcessPool


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

"""Records of what a result was made with: the processes that trained a run, and what rounding depends on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from radii.provenance import environment, record_environment, rounding_environment
from radii.runs.run import Run


def recorded(run: Run) -> list[tuple[int, int, int]]:
    return [(each["epoch"], each["step"], each["processes"]) for each in run.environment()["training"]]


def test_number_of_processes_is_recorded_from_each_step_on(tmp_path: Path) -> None:
    run = Run(tmp_path)
    record_environment(run, 2, 0, 0)
    record_environment(run, 2, 1, 5)
    assert recorded(run) == [(0, 0, 2)]
    record_environment(run, 4, 1, 5)
    record_environment(run, 1, 3, 0)
    assert recorded(run) == [(0, 0, 2), (1, 5, 4), (3, 0, 1)]
    assert run.environment()["versions"] == environment()["versions"]


def test_lost_steps_are_not_recorded(tmp_path: Path) -> None:
    run = Run(tmp_path)
    record_environment(run, 2, 0, 0)
    record_environment(run, 1, 0, 0)
    assert recorded(run) == [(0, 0, 1)]


def test_unrecorded_run_counts_as_one_process(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.environment_file.write_text('{"cores": 2}')
    record_environment(run, 2, 4, 7)
    assert recorded(run) == [(0, 0, 1), (4, 7, 2)]


@pytest.mark.parametrize("newer", [False, True])
def test_the_environment_of_a_gpu_has_what_its_rounding_depends_on(
    newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch refuses to read its older setting of precision where the newer one was used."""

    def refuse() -> str:
        raise RuntimeError("mix of the legacy and new APIs")

    backends: Any = torch.backends
    card = SimpleNamespace(name="NVIDIA A100", multi_processor_count=108)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setattr("radii.provenance.tf32", lambda: {"matmul": False, "conv": True})
    if newer:
        monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    described = rounding_environment("torch", torch.device("cuda", 1), 2048)
    assert described["matrix_products"] == (f"fp32_precision {backends.fp32_precision}" if newer else "highest")
    stated = {"device": "NVIDIA A100", "multiprocessors": 108, "cudnn": 91002, "tf32": {"matmul": False, "conv": True}}
    assert stated.items() <= described.items()

"""Precision: what a device supports, the scaler of float16, and the settings of a GPU."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from radii.errors import ParameterError, RunWarning
from radii.training.precision import check_precision, make_scaler, tuned

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def settings() -> tuple[Any, ...]:
    backends: Any = torch.backends
    return backends.cudnn.benchmark, backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision


@pytest.fixture
def before() -> Iterator[tuple[Any, ...]]:
    present = settings()
    yield present
    assert settings() == present


def test_training_on_cuda_lets_cudnn_choose_and_sets_tf32(before: tuple[Any, ...]) -> None:
    with tuned("tf32", CUDA):
        assert settings() == (True, "tf32", "tf32")
    with tuned("float32", CUDA):
        assert settings() == (True, *before[1:])
    with tuned("float32", CPU):
        assert settings() == before


@pytest.mark.usefixtures("before")
def test_settings_are_restored_after_an_error() -> None:
    with pytest.raises(KeyboardInterrupt), tuned("tf32", CUDA):
        raise KeyboardInterrupt


def test_tf32_needs_an_nvidia_gpu() -> None:
    check_precision("tf32", CUDA)
    with pytest.raises(ParameterError, match="the device is 'mps'"):
        check_precision("tf32", torch.device("mps"))


@pytest.mark.parametrize(("precision", "unit"), [("bfloat16", "amx_bf16"), ("float16", "avx512_fp16")])
def test_precision_that_a_cpu_emulates_is_warned_of(
    precision: str, unit: str, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {unit: True, "cpu_name": "any"})
    check_precision(precision, CPU)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {unit: False, "cpu_name": "any"})
    check_precision("float32", CPU)
    check_precision(precision, CUDA)
    assert not recwarn
    with pytest.warns(RunWarning, match=f"a CPU without {precision} units takes about twice as long"):
        check_precision(precision, CPU)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16", "float16"])
def test_only_float16_scales_the_loss(precision: str) -> None:
    assert make_scaler(precision, CPU).is_enabled() == (precision == "float16")

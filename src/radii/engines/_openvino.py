"""Conversion and inference with OpenVINO, shared by its engines."""

import importlib.util
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from radii.engines.base import EngineSpec
from radii.errors import MissingExtraError


def is_installed() -> bool:
    return importlib.util.find_spec("openvino") is not None


def without_telemetry() -> None:
    """Keep OpenVINO and NNCF from sending usage reports and from writing an id into the home directory.

    Both take stubs where openvino_telemetry cannot be imported, so this comes before every import of them. In a
    process that has imported them already, reports that they have started are not undone, but nothing more is sent.
    """
    if sys.modules.get("openvino_telemetry") is None:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    elif sender := sys.modules.get("openvino_telemetry.utils.sender"):
        sender.TelemetrySender.send = lambda *_: None


@cache
def core() -> Any:
    """Return OpenVINO's `Core`, one for the process and until its end.

    Each `Core` sets a signal stack of its own, and restores the previous one when it is deleted. If two are deleted in
    the order in which they were made, the signal stack is freed memory, and the next Ctrl-C crashes the process.
    """
    without_telemetry()
    import openvino

    return openvino.Core()


def capabilities() -> list[str]:
    """Return the precisions that OpenVINO supports on this CPU in hardware, and its other capabilities."""
    names: list[str] = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return names


def convert(spec: EngineSpec) -> Any:
    """Convert the model to OpenVINO's form."""
    if not is_installed():
        raise MissingExtraError("The engine 'openvino' needs OpenVINO, which is not installed.", "openvino")
    without_telemetry()
    import openvino
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    example = torch.zeros(spec.batch_size, *spec.shape)
    # The form is compared with the model afterwards; torch's own check of the trace would cost half a second.
    decoder = TorchScriptPythonDecoder(spec.model, example_input=example, trace_kwargs={"check_trace": False})
    return openvino.convert_model(decoder, example_input=example, input=[list(example.shape)])


def infer(model: Any, precision: str = "f32") -> Callable[[Tensor], Tensor]:
    """Compile a model by OpenVINO; `precision` is that of what is not quantised."""
    settings = {
        "INFERENCE_PRECISION_HINT": precision,  # or a machine with bf16 units would silently use them
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,  # or the workers of several processes would share one core
    }
    compiled = core().compile_model(model, "CPU", settings)
    own = threading.local()  # a request holds the inputs and outputs of one inference: each thread needs its own

    def run(images: Tensor) -> Tensor:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        return torch.from_numpy(own.request.infer([images.contiguous().numpy()], share_inputs=True)[0].copy())

    return run

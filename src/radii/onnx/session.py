"""ONNX files, and the ONNX Runtime sessions on the CPU that run them."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from radii.errors import ParameterError

EXTRA = ("onnx", "onnxruntime", "onnxscript")
LOGITS = "logits"
"""The name of the output to use where a graph has several."""


class OnnxError(ParameterError):
    """An ONNX file that cannot be used; the message says why."""


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in EXTRA)


def require(what: str) -> None:
    """Raise a LookupError that says what to install, if it is missing."""
    if not is_installed():
        raise LookupError(f"{what} needs onnx and onnxruntime, which are not installed: pip install 'radii[onnx]'")


def read(file: Path) -> bytes:
    """An ONNX file as one self-contained graph: weights in files beside it are put into it."""
    require(str(file))
    import onnx

    if not file.is_file():
        raise OnnxError(f"there is no file {file}")
    try:
        if not list(_external(onnx.load(str(file), load_external_data=False))):
            return file.read_bytes()
        return bytes(onnx.load(str(file)).SerializeToString())
    except Exception as error:  # protobuf's, onnx's and the system's errors have no common base class
        raise OnnxError(f"{file} is not an ONNX file that can be read: {first_line(error)}") from error


def open_session(content: bytes) -> Any:
    """An ONNX Runtime session of a self-contained graph; its `run` may be called by several threads at once."""
    require("this model")
    import onnxruntime

    import onnx

    try:
        # An untrusted graph may name any file of this machine as its weights.
        if elsewhere := list(_external(onnx.load_model_from_string(content))):
            raise OnnxError(f"the ONNX graph has the weights {elsewhere[0]!r} in another file: put all into one")
        session = onnxruntime.InferenceSession(content, _options(), providers=["CPUExecutionProvider"])
    except OnnxError:
        raise
    except Exception as error:  # onnxruntime's errors have no common base class
        raise OnnxError(f"ONNX Runtime cannot run this model: {first_line(error)}") from error
    _check_ends(session)
    return session


def _options() -> Any:
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # errors are raised
    # Spinning threads would take the cores of other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _check_ends(session: Any) -> None:
    """Raise an OnnxError unless the graph maps a batch of images to one row of logits each."""
    given = session.get_inputs()
    if len(given) != 1:
        raise OnnxError(f"the ONNX model takes {len(given)} inputs, expected one: a batch of images")
    (images,) = given
    if images.type != "tensor(float)" or len(images.shape) != 4:
        got = f"{images.type} of {len(images.shape)} dimensions"
        raise OnnxError(f"the ONNX model takes a {got}, expected float32 [batch, channel, height, width]")
    logits_name(session)


def logits_name(session: Any) -> str:
    """The output that holds the logits: the only one, or the one of that name."""
    names = [str(output.name) for output in session.get_outputs()]
    if len(names) != 1 and LOGITS not in names:
        raise OnnxError(f"the ONNX model has the outputs {', '.join(names)}, expected one, or one named {LOGITS!r}")
    return names[0] if len(names) == 1 else LOGITS


def _external(message: Any) -> Iterator[str]:
    """The names of the tensors of an ONNX message, at any depth, whose values are in other files."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto" and part.data_location == part.EXTERNAL:
                yield str(part.name)
            yield from _external(part)


def first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]

"""Run ONNX classifiers as torch modules; needs radii[onnx], which is imported when it is used."""

import hashlib
import importlib.util
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import MissingExtraError, ParameterError

EXTRA = ("onnx", "onnxruntime", "onnxscript")
LOGITS = "logits"
"""The name of the output that is used if a graph has several."""
TRIAL = Path(__file__).with_name("_onnx_trial.py")
TRIAL_SECONDS = 120
"""The limit for opening a graph and classifying one image."""
_EMPTY = torch.empty(0, dtype=torch.uint8)
_TRIED: set[str] = set()
"""Digests of graphs that were opened and run before."""


class OnnxError(ParameterError):
    """The ONNX file cannot be used; the message says why."""


def is_installed() -> bool:
    """Return whether all packages of the extra are installed."""
    return all(importlib.util.find_spec(name) is not None for name in EXTRA)


def require(what: str) -> None:
    """Raise a LookupError that says what to install if a package is missing; `what` needs it."""
    if not is_installed():
        raise MissingExtraError(f"{what} needs onnx and onnxruntime, which are not installed.", "onnx")


def read(file: Path) -> bytes:
    """Read an ONNX file as one self-contained graph, with the weights that are in files beside it."""
    require(str(file))
    import onnx

    if not file.is_file():
        raise OnnxError(f"there is no file {file}")
    try:
        if not list(_external_tensors(onnx.load(str(file), load_external_data=False))):
            return file.read_bytes()
        return bytes(onnx.load(str(file)).SerializeToString())
    except Exception as error:  # protobuf's, onnx's and the system's errors have no common base class
        raise OnnxError(f"{file} is not an ONNX file that can be read: {_first_line(error)}") from error


def has_graph(model: nn.Module) -> bool:
    """Return whether a model is or contains an ONNX graph, which runs on the CPU alone."""
    return any(isinstance(module, OnnxGraph) for module in model.modules())


def from_torch(model: nn.Module, shape: tuple[int, int, int]) -> bytes:
    """Export a torch model in eval mode as a self-contained ONNX graph for any batch size."""
    require("an ONNX export")
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                model,
                (torch.zeros(2, *shape),),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                input_names=["images"],
                output_names=[LOGITS],
                verbose=False,
            )
            return bytes(program.model_proto.SerializeToString())  # type: ignore[union-attr]
    except Exception as error:  # torch has many errors for models that it cannot export
        raise OnnxError(f"torch cannot export this model to ONNX: {_first_line(error)}", "model") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's warnings, which are for its developers."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


class OnnxGraph(nn.Module):
    """An image classifier in the form of an ONNX graph, without gradients and without weights to train.

    It maps float32 images [batch, channel, height, width] to logits [batch, class]. A graph of a fixed batch size gets
    its batches one after the other, the last one padded. The serialised graph is the module's only tensor, so its state
    dict is complete.
    """

    graph: Tensor

    def __init__(self, content: bytes = b"", *, known: bool = False) -> None:
        """Keep a serialised graph. One that is `known`, because this process made it, is opened without a trial."""
        super().__init__()
        self.register_buffer("graph", torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else _EMPTY)
        if known:
            _TRIED.add(_digest(content))
        self.eval()

    @cached_property
    def session(self) -> Any:
        """The ONNX Runtime session, opened at the first use with torch's number of threads at that time."""
        content = self.content
        _expect_own_weights(content)
        _try_out(content)
        return _open_session(content)

    @property
    def content(self) -> bytes:
        """The bytes of the ONNX file."""
        return self.graph.cpu().numpy().tobytes()

    @property
    def input_shape(self) -> tuple[int | None, ...]:
        """Batch, channels, height and width of the input; None stands for any size."""
        return tuple(side if isinstance(side, int) else None for side in self.session.get_inputs()[0].shape)

    @property
    def input_name(self) -> str:
        """The name of the images."""
        return str(self.session.get_inputs()[0].name)

    @property
    def output_name(self) -> str:
        """The name of the logits."""
        return _logits_name(self.session)

    @property
    def input_size(self) -> str:
        """Channels, height and width of the input, as text."""
        return _size_text(self.input_shape[1:])

    def accepts(self, shape: Sequence[int]) -> bool:
        """Return whether images of these channels, height and width fit."""
        expected = self.input_shape[1:]
        return len(shape) == 3 and all(side in (None, got) for side, got in zip(expected, shape, strict=True))

    def forward(self, images: Tensor) -> Tensor:
        self._check(images)
        size = self.input_shape[0]
        batches = images.split(size) if size else (images,)
        logits = [self._run(batch, size or len(batch)) for batch in batches]
        return (logits[0] if len(logits) == 1 else torch.cat(logits)).to(images.device)

    def _run(self, images: Tensor, size: int) -> Tensor:
        """Run one batch, padded to `size` images."""
        batch = images.detach().to("cpu", torch.float32)
        if missing := size - len(images):
            batch = torch.cat([batch, batch.new_zeros(missing, *batch.shape[1:])])
        try:
            (logits,) = _run_session(self.session, [self.output_name], {self.input_name: batch.contiguous().numpy()})
        except Exception as error:  # onnxruntime's errors have no common base class
            raise OnnxError(f"the ONNX model fails on {_size_text(images.shape)}: {_first_line(error)}") from error
        return torch.from_numpy(logits)[: len(images)]

    def _check(self, images: Tensor) -> None:
        if not isinstance(images, Tensor) or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            # A tracer would record the output for its example as a constant.
            raise TypeError("an ONNX graph cannot be traced by torch")
        if torch.is_grad_enabled() and images.requires_grad:
            raise OnnxError("an ONNX model gives no gradients: use a method that needs only its outputs", "model")
        if not self.accepts(images.shape[1:]):
            raise OnnxError(f"the ONNX model takes images {self.input_size}, got {_size_text(images.shape[1:])}")

    def train(self, mode: bool = True) -> "OnnxGraph":
        """Stay in eval mode: a graph has no other."""
        return super().train(False)

    def _load_from_state_dict(self, state: Mapping[str, Tensor], prefix: str, *rest: Any) -> None:
        if (graph := state.get(f"{prefix}graph")) is not None:
            self.graph = torch.empty_like(graph, device=self.graph.device)
            self.__dict__.pop("session", None)
        super()._load_from_state_dict(state, prefix, *rest)

    def __getstate__(self) -> dict[str, Any]:
        # A session can be neither copied nor sent to another process, so every copy opens its own.
        state = {key: value for key, value in self.__dict__.items() if key != "session"}
        return {**state, "_tried": _TRIED & {_digest(self.content)}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        _TRIED.update(state.pop("_tried", ()))
        super().__setstate__(state)  # type: ignore[no-untyped-call]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _expect_own_weights(content: bytes) -> None:
    """Raise an OnnxError for a graph with weights in other files: it could name any file of this machine."""
    require("this model")
    import onnx

    try:
        external = list(_external_tensors(onnx.load_model_from_string(content)))
    except Exception as error:  # protobuf's errors have no common base class
        raise _cannot_run(error) from error
    if external:
        raise OnnxError(f"the ONNX graph has the weights {external[0]!r} in another file: put all of them into one")


def _cannot_run(error: Exception) -> OnnxError:
    return OnnxError(f"ONNX Runtime cannot run this model: {_first_line(error)}")


def _try_out(content: bytes) -> None:
    """Open a new graph and run it once in a separate process: it may loop for ever inside ONNX Runtime, or crash it."""
    if (digest := _digest(content)) in _TRIED:
        return
    command = [sys.executable, "-P", str(TRIAL), str(TRIAL_SECONDS)]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, input=content, capture_output=True, env=one_thread, timeout=TRIAL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OnnxError(
            f"the ONNX model does not classify one image within {TRIAL_SECONDS} s: it may loop for ever, do not use it"
        ) from error
    if done.returncode < 0:  # other failures are raised when the graph is opened here
        raise OnnxError(f"the ONNX model ends ONNX Runtime with signal {-done.returncode}: do not use it")
    _TRIED.add(digest)


def _run_session(session: Any, outputs: list[str], inputs: Mapping[str, Any]) -> Any:
    """Run a session; Ctrl-C ends it at its next node."""
    import onnxruntime

    if threading.current_thread() is not threading.main_thread():  # other threads get no signals
        return session.run(outputs, inputs)
    options, answer = onnxruntime.RunOptions(), Future[Any]()

    def run() -> None:
        try:
            answer.set_result(session.run(outputs, inputs, options))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.result()
    except BaseException:
        options.terminate = True
        raise


def _open_session(content: bytes) -> Any:
    """Open an ONNX Runtime session on the CPU; several threads may call its `run` at once."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(content, _session_options(), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base class
        raise _cannot_run(error) from error
    _check_signature(session)
    return session


def _session_options() -> Any:
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


def _check_signature(session: Any) -> None:
    """Raise an OnnxError unless the graph maps a batch of images to one row of logits each."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise OnnxError(f"the ONNX model takes {len(inputs)} inputs, expected one: a batch of images")
    (images,) = inputs
    if images.type != "tensor(float)" or len(images.shape) != 4:
        got = f"{images.type} of {len(images.shape)} dimensions"
        raise OnnxError(f"the ONNX model takes a {got}, expected float32 [batch, channel, height, width]")
    _logits_name(session)


def _logits_name(session: Any) -> str:
    """Return the output that holds the logits: the only one, or the one named `logits`."""
    names = [str(output.name) for output in session.get_outputs()]
    if len(names) != 1 and LOGITS not in names:
        raise OnnxError(f"the ONNX model has the outputs {', '.join(names)}, expected one, or one named {LOGITS!r}")
    return names[0] if len(names) == 1 else LOGITS


def _external_tensors(message: Any) -> Iterator[str]:
    """Yield the names of the tensors in an ONNX message, at any depth, whose values are in other files."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for inner in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto" and inner.data_location == inner.EXTERNAL:
                yield str(inner.name)
            yield from _external_tensors(inner)


def _size_text(shape: Sequence[int | None]) -> str:
    return " x ".join("any" if side is None else str(side) for side in shape)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def description_file(file: Path) -> Path:
    """Return the file that describes an exported file: the same name with .json after it."""
    return file.with_name(f"{file.name}.json")

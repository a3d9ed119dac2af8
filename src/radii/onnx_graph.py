"""ONNX graphs as torch modules that ONNX Runtime carries out on the CPU, and torch models as ONNX graphs.

Needs radii[onnx]; nothing of it is imported before it is used.
"""

import importlib.util
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import ParameterError

EXTRA = ("onnx", "onnxruntime", "onnxscript")
INPUT, OUTPUT = "images", "logits"
"""The names in the graphs that are made here."""


class OnnxError(ParameterError):
    """An ONNX file that cannot be used, with the sentence that says why."""


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in EXTRA)


def require(what: str) -> None:
    """Raise a LookupError that says what to install, where it is not."""
    if not is_installed():
        raise LookupError(f"{what} needs onnx and onnxruntime, which are not installed: pip install 'radii[onnx]'")


class OnnxGraph(nn.Module):
    """An image classifier given as an ONNX graph: it answers, and has neither gradients nor weights to train.

    The serialised graph is the module's one tensor, so whatever saves, copies or compares its state has all of it. It
    maps float32 images [batch, channel, height, width] to logits [batch, class]; a graph of a fixed batch size gets
    its batches one after the other, the last one padded.
    """

    graph: Tensor

    def __init__(self, content: bytes = b"") -> None:
        super().__init__()
        self.register_buffer("graph", torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else _EMPTY)
        self.eval()

    @cached_property
    def session(self) -> Any:
        """What carries it out: made at the first use, with as many threads as torch has then."""
        return open_session(self.content)

    @property
    def content(self) -> bytes:
        """The file that it came from."""
        return self.graph.cpu().numpy().tobytes()

    @property
    def input_shape(self) -> tuple[int | None, ...]:
        """Batch, channels, height, width that it takes; None where it takes any."""
        return tuple(side if isinstance(side, int) else None for side in self.session.get_inputs()[0].shape)

    def forward(self, images: Tensor) -> Tensor:
        self._check(images)
        block = self.input_shape[0]
        blocks = images.split(block) if block else (images,)
        logits = [self._answer(each, block or len(each)) for each in blocks]
        return (logits[0] if len(logits) == 1 else torch.cat(logits)).to(images.device)

    def _answer(self, images: Tensor, block: int) -> Tensor:
        given = images.detach().to("cpu", torch.float32)
        if missing := block - len(images):
            given = torch.cat([given, given.new_zeros(missing, *given.shape[1:])])
        session = self.session
        try:
            (logits,) = session.run([output_name(session)], {session.get_inputs()[0].name: given.contiguous().numpy()})
        except Exception as error:  # onnxruntime's errors have no base of their own
            raise OnnxError(f"the ONNX model fails on {_sides(images.shape)}: {_first_line(error)}") from error
        return torch.from_numpy(logits)[: len(images)]

    def _check(self, images: Tensor) -> None:
        if not isinstance(images, Tensor) or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            # A tracer would keep the answer to its one example as a constant.
            raise TypeError("an ONNX graph cannot be traced by torch")
        if torch.is_grad_enabled() and images.requires_grad:
            raise OnnxError("an ONNX model gives no gradients: use a method that only asks for its answers", "model")
        if not self.takes(images.shape[1:]):
            raise OnnxError(f"the ONNX model takes images {self.wanted}, got {_sides(images.shape[1:])}")

    @property
    def wanted(self) -> str:
        """The channels, height and width that it takes, in words."""
        return _sides(self.input_shape[1:])

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether images of these channels, height and width fit."""
        wanted = self.input_shape[1:]
        return len(shape) == 3 and all(side in (None, got) for side, got in zip(wanted, shape, strict=True))

    def train(self, mode: bool = True) -> "OnnxGraph":
        """It stays in eval mode: there is no other."""
        return super().train(False)

    def _load_from_state_dict(self, state: Mapping[str, Tensor], prefix: str, *rest: Any) -> None:
        if (graph := state.get(f"{prefix}graph")) is not None:
            self.graph = torch.empty_like(graph, device=self.graph.device)
            self.__dict__.pop("session", None)
        super()._load_from_state_dict(state, prefix, *rest)

    def __getstate__(self) -> dict[str, Any]:
        # A session can be neither copied nor sent to another process: each makes its own.
        return {key: value for key, value in self.__dict__.items() if key != "session"}


_EMPTY = torch.empty(0, dtype=torch.uint8)


def read(file: Path) -> bytes:
    """An ONNX file as one self-contained graph: weights that lie in files beside it are put into it."""
    require(str(file))
    import onnx

    if not file.is_file():
        raise OnnxError(f"there is no file {file}")
    try:
        if not any(_external(onnx.load(str(file), load_external_data=False))):
            return file.read_bytes()
        return bytes(onnx.load(str(file)).SerializeToString())
    except Exception as error:  # protobuf's, onnx's and the system's errors have no base of their own
        raise OnnxError(f"{file} is not an ONNX file that can be read: {_first_line(error)}") from error


def open_session(content: bytes) -> Any:
    """An ONNX Runtime session of a self-contained graph; its `run` may be called by several threads at once."""
    require("this model")
    import onnx
    import onnxruntime

    try:
        # A graph of others may name any file of this machine as its weights.
        if name := next(_external(onnx.load_model_from_string(content)), None):
            raise OnnxError(f"the ONNX graph keeps the weights {name!r} in another file: put all into one")
        session = onnxruntime.InferenceSession(content, _options(), providers=["CPUExecutionProvider"])
    except OnnxError:
        raise
    except Exception as error:  # onnxruntime's errors have no base of their own
        raise OnnxError(f"ONNX Runtime cannot run this model: {_first_line(error)}") from error
    _check_ends(session)
    return session


def _options() -> Any:
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # what goes wrong is raised
    # Threads that wait for work in a loop would take the cores of other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _check_ends(session: Any) -> None:
    """Raise an OnnxError unless the graph takes a batch of images and gives a row of logits for each."""
    given = session.get_inputs()
    if len(given) != 1:
        raise OnnxError(f"the ONNX model takes {len(given)} inputs, expected one: a batch of images")
    (images,) = given
    if images.type != "tensor(float)" or len(images.shape) != 4:
        got = f"{images.type} of {len(images.shape)} dimensions"
        raise OnnxError(f"the ONNX model takes a {got}, expected float32 [batch, channel, height, width]")
    output_name(session)


def output_name(session: Any) -> str:
    """The output that holds the logits: the only one, or the one of that name."""
    names = [str(output.name) for output in session.get_outputs()]
    if len(names) != 1 and OUTPUT not in names:
        raise OnnxError(f"the ONNX model has the outputs {', '.join(names)}, expected one, or one named {OUTPUT!r}")
    return names[0] if len(names) == 1 else OUTPUT


def _external(message: Any) -> Iterator[str]:
    """The names of the tensors of an ONNX message, at any depth, whose values lie in other files."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto" and part.data_location == part.EXTERNAL:
                yield str(part.name)
            yield from _external(part)


def from_torch(model: nn.Module, shape: tuple[int, int, int]) -> bytes:
    """A torch model in eval mode as a self-contained ONNX graph of any batch size."""
    require("an ONNX export")
    example = torch.zeros(2, *shape)
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                model,
                (example,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                input_names=[INPUT],
                output_names=[OUTPUT],
                verbose=False,
            )
            return bytes(program.model_proto.SerializeToString())  # type: ignore[union-attr]
    except Exception as error:  # what torch cannot export it tells in many ways
        raise OnnxError(f"torch cannot export this model to ONNX: {_first_line(error)}", "model") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings: they are for its developers."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _sides(shape: Sequence[int | None]) -> str:
    return " x ".join("any" if side is None else str(side) for side in shape)

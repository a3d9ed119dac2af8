"""A classifier in an ONNX graph as a torch module."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from radii.onnx.session import OnnxError, first_line, logits_name, open_session


class OnnxGraph(nn.Module):
    """An image classifier given as an ONNX graph; it has neither gradients nor weights to train.

    The serialised graph is the module's one tensor, so saving, copying or comparing its state covers all of it. It
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
        """The ONNX Runtime session, made at the first use with torch's current number of threads."""
        return open_session(self.content)

    @property
    def content(self) -> bytes:
        """The bytes of the file that it came from."""
        return self.graph.cpu().numpy().tobytes()

    @property
    def input_shape(self) -> tuple[int | None, ...]:
        """Batch, channels, height, width that it takes; None where it takes any."""
        return tuple(side if isinstance(side, int) else None for side in self.session.get_inputs()[0].shape)

    @property
    def input_name(self) -> str:
        return str(self.session.get_inputs()[0].name)

    @property
    def output_name(self) -> str:
        return logits_name(self.session)

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
        try:
            (logits,) = self.session.run([self.output_name], {self.input_name: given.contiguous().numpy()})
        except Exception as error:  # onnxruntime's errors have no common base class
            raise OnnxError(f"the ONNX model fails on {_sides(images.shape)}: {first_line(error)}") from error
        return torch.from_numpy(logits)[: len(images)]

    def _check(self, images: Tensor) -> None:
        if not isinstance(images, Tensor) or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            # A tracer would record the output for its example as a constant.
            raise TypeError("an ONNX graph cannot be traced by torch")
        if torch.is_grad_enabled() and images.requires_grad:
            raise OnnxError("an ONNX model gives no gradients: use a method that needs only its outputs", "model")
        if not self.takes(images.shape[1:]):
            raise OnnxError(f"the ONNX model takes images {self.wanted}, got {_sides(images.shape[1:])}")

    @property
    def wanted(self) -> str:
        """The channels, height and width that it takes, as text."""
        return _sides(self.input_shape[1:])

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether images of these channels, height and width fit."""
        wanted = self.input_shape[1:]
        return len(shape) == 3 and all(side in (None, got) for side, got in zip(wanted, shape, strict=True))

    def train(self, mode: bool = True) -> "OnnxGraph":
        """It stays in eval mode, the only one it has."""
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


def _sides(shape: Sequence[int | None]) -> str:
    return " x ".join("any" if side is None else str(side) for side in shape)

"""torch models as ONNX graphs."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from radii.onnx.graph import OnnxGraph
from radii.onnx.session import LOGITS, OnnxError, first_line, require


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
                input_names=["images"],
                output_names=[LOGITS],
                verbose=False,
            )
            return bytes(program.model_proto.SerializeToString())  # type: ignore[union-attr]
    except Exception as error:  # torch raises many kinds of errors for what it cannot export
        raise OnnxError(f"torch cannot export this model to ONNX: {first_line(error)}", "model") from error


def behind(content: bytes, mean: Tensor, std: Tensor) -> bytes:
    """A graph with the normalisation (images - mean) / std put before it."""
    import onnx

    model = onnx.load_model_from_string(content)
    graph, helper = model.graph, onnx.helper
    old = OnnxGraph(content).input_name
    given = next(each for each in graph.input if each.name == old)
    given.name = f"{old}_pixels"
    constants = {f"{old}_mean": mean, f"{old}_std": std}
    before = [
        helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(tensor.numpy(), name))
        for name, tensor in constants.items()
    ]
    before.append(helper.make_node("Sub", [given.name, f"{old}_mean"], [f"{old}_centred"]))
    before.append(helper.make_node("Div", [f"{old}_centred", f"{old}_std"], [old]))
    nodes = [*before, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return bytes(model.SerializeToString())


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

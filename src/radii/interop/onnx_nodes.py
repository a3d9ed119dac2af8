"""Put nodes before an ONNX graph: a normalisation, or noise that the runtime draws."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from radii.onnx import OnnxGraph


def with_normalisation(content: bytes, mean: Tensor, std: Tensor) -> bytes:
    """Return a graph that computes (images - mean) / std first."""
    from onnx import helper, numpy_helper

    images = OnnxGraph(content).input_name
    pixels, centred = f"{images}_pixels", f"{images}_centred"
    constants = {f"{images}_mean": mean, f"{images}_std": std}
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(tensor.numpy(), name))
        for name, tensor in constants.items()
    ]
    nodes.append(helper.make_node("Sub", [pixels, f"{images}_mean"], [centred]))
    nodes.append(helper.make_node("Div", [centred, f"{images}_std"], [images]))
    return _with_nodes(content, images, pixels, nodes)


def with_noise(content: bytes, sigma: float) -> bytes:
    """Return a graph that adds normal noise to its images first, drawn by the runtime anew in every call.

    The graph states no seed: with one, every session would draw the same noise.
    """
    from onnx import helper

    images = OnnxGraph(content).input_name
    pixels, noise = f"{images}_without_noise", f"{images}_noise"
    nodes = [
        helper.make_node("RandomNormalLike", [pixels], [noise], mean=0.0, scale=float(sigma)),
        helper.make_node("Add", [pixels, noise], [images]),
    ]
    return _with_nodes(content, images, pixels, nodes)


def _with_nodes(content: bytes, images: str, pixels: str, nodes: Sequence[Any]) -> bytes:
    """Put nodes that turn `pixels`, the new input, into `images` before all others."""
    import onnx

    model = onnx.load_model_from_string(content)
    nodes = [*nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for value in model.graph.input:
        if value.name == images:
            value.name = pixels
    return bytes(model.SerializeToString())

"""A classifier in an ONNX file, used as a black box; needs radii[onnx]."""

from pathlib import Path

from torch import nn

from radii.onnx_graph import OnnxGraph, read


def onnx(file: str = "") -> nn.Module:
    """A classifier in an ONNX file, unchanged: it can be certified and be a teacher, but not trained."""
    return OnnxGraph(read(Path(file)) if file else b"")

"""A classifier in an ONNX file, of which nothing more is known than its answers; needs radii[onnx]."""

from pathlib import Path

from torch import nn

from radii.onnx import OnnxGraph, read


def onnx(file: str = "") -> nn.Module:
    """A classifier in an ONNX file, as it is: it is certified and teaches, and cannot be trained."""
    return OnnxGraph(read(Path(file)) if file else b"")

"""ONNX graphs as torch modules, and torch models as ONNX graphs; needs radii[onnx], imported when it is used."""

from radii.onnx.export import behind, from_torch
from radii.onnx.graph import OnnxGraph
from radii.onnx.session import OnnxError, is_installed, read, require

__all__ = ["OnnxError", "OnnxGraph", "behind", "from_torch", "is_installed", "read", "require"]

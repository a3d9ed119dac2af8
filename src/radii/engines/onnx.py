"""ONNX Runtime on a CPU in float32; needs radii[onnx]."""

from dataclasses import dataclass

import torch
from torch import nn

from radii.engines.base import Engine, EngineSpec
from radii.onnx_graph import OnnxGraph, from_torch, is_installed, require


@dataclass(frozen=True, kw_only=True)
class Onnx(Engine):
    """The export takes seconds in every process, so `auto` does not use it."""

    @classmethod
    def runs_on(cls, device: torch.device) -> bool:
        return is_installed() and device.type == "cpu"

    def prepare(self, spec: EngineSpec) -> nn.Module:
        require("the engine 'onnx'")
        return OnnxGraph(from_torch(spec.model, spec.shape), known=True)

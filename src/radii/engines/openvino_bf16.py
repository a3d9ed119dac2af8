"""OpenVINO on a CPU with bfloat16 units: almost the same function, certified as the one that ran."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from radii.engines._openvino import capabilities, convert, infer, is_installed
from radii.engines.base import Engine, EngineSpec, FixedBlock


@dataclass(frozen=True, kw_only=True)
class OpenVinoBf16(Engine):
    least_agreement: ClassVar[float] = 0.95

    @classmethod
    def runs_on(cls, device: torch.device) -> bool:
        return is_installed() and device.type == "cpu" and "BF16" in capabilities()

    def prepare(self, spec: EngineSpec) -> nn.Module:
        converted = convert(spec)
        if "BF16" not in capabilities():
            raise LookupError("the engine 'openvino_bf16' needs a CPU with bfloat16 units: use 'openvino'")
        return FixedBlock(infer(converted, "bf16"), spec.batch_size)

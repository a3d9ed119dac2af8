"""OpenVINO on a CPU in float32; needs radii[openvino]."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from radii.engines._openvino import convert, infer, is_installed
from radii.engines.base import Engine, EngineSpec, FixedBlock


@dataclass(frozen=True, kw_only=True)
class OpenVino(Engine):
    automatic: ClassVar[bool] = True

    @classmethod
    def runs_on(cls, device: torch.device) -> bool:
        return is_installed() and device.type == "cpu"

    def prepare(self, spec: EngineSpec) -> nn.Module:
        return FixedBlock(infer(convert(spec)), spec.batch_size)

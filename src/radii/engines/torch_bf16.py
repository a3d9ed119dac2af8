"""Plain torch in bfloat16: almost the same function, certified as the one that ran. For GPUs."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from radii.engines.base import Engine, EngineSpec, Half


@dataclass(frozen=True, kw_only=True)
class TorchBf16(Engine):
    least_agreement: ClassVar[float] = 0.95

    def prepare(self, spec: EngineSpec) -> nn.Module:
        return Half(spec.model, torch.bfloat16)

"""Plain torch in float16: almost the same function, certified as the one that ran. For GPUs."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from radii.engines.base import Engine, EngineSpec, Half


@dataclass(frozen=True, kw_only=True)
class TorchFp16(Engine):
    """Numbers above 65,504 overflow: a model that has them is refused."""

    least_agreement: ClassVar[float] = 0.95

    def prepare(self, spec: EngineSpec) -> nn.Module:
        return Half(spec.model, torch.float16)

"""Plain torch, BatchNorm folded into the convolutions."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from radii.engines.base import Engine, EngineSpec


@dataclass(frozen=True, kw_only=True)
class Torch(Engine):
    automatic: ClassVar[bool] = True

    def prepare(self, spec: EngineSpec) -> nn.Module:
        return spec.model

"""torch.compile: slow to prepare, faster afterwards."""

from dataclasses import dataclass

import torch
from torch import nn

from radii.engines.base import Engine, EngineSpec, FixedBlock


@dataclass(frozen=True, kw_only=True)
class Compile(Engine):
    def prepare(self, spec: EngineSpec) -> nn.Module:
        import torch._inductor.config as inductor

        inductor.freezing = True
        return FixedBlock(torch.compile(spec.model), spec.batch_size)

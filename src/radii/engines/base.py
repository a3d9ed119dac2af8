"""The contract of an engine."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.plugins import Component
from radii.smoothing.addresses import Purpose, generator
from radii.smoothing.noise import Noise

PROBE: Purpose = "probe"
CALIBRATION: Purpose = "calibrate"


@dataclass(frozen=True)
class EngineSpec:
    """What an engine is prepared for."""

    model: nn.Module
    """In eval mode, BatchNorm folded."""
    shape: tuple[int, int, int]
    noise: Noise
    batch_size: int
    artefact: Path
    """Where an engine with a state of its own keeps it, without the suffix."""
    pictures: Callable[[], Tensor]
    """Training images to calibrate on: [image, channel, height, width]."""

    @property
    def device(self) -> torch.device:
        return next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))

    def probe(self) -> Tensor:
        """A block of black images, which every noise takes, under noise."""
        return self.noisy(torch.zeros((self.batch_size, *self.shape)), PROBE).to(self.device)

    def noisy(self, images: Tensor, purpose: Purpose) -> Tensor:
        """Images under noise of their own, laid out channels last."""
        noisy = self.noise.perturb(images, torch.empty_like(images), generator("cpu", purpose))
        return noisy.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True, kw_only=True)
class Engine(Component, ABC):
    """A way to run forward passes.

    A certificate is about the function that ran, so the engine is part of its record and the one to deploy.
    """

    kind: ClassVar[str] = "engine"
    automatic: ClassVar[bool] = False
    """Whether `auto` may choose it: it is quick to prepare and keeps the function up to rounding."""

    @classmethod
    def runs_on(cls, device: torch.device) -> bool:
        """Whether what it needs is installed and it runs on a device."""
        return True

    @abstractmethod
    def prepare(self, spec: EngineSpec) -> nn.Module:
        """The model in the form that this engine runs, for blocks of up to `spec.batch_size` images."""


class FixedBlock(nn.Module):
    """A compiled function of one block size and layout; a shorter block is padded."""

    def __init__(self, function: Callable[[Tensor], Tensor], block: int) -> None:
        super().__init__()
        self.function = function
        self.block = block

    def forward(self, images: Tensor) -> Tensor:
        missing = (0, 0) * 3 + (0, self.block - len(images))
        rows_first = F.pad(images.permute(0, 2, 3, 1), missing) if missing[-1] else images.permute(0, 2, 3, 1)
        return self.function(rows_first.contiguous().permute(0, 3, 1, 2))[: len(images)]

"""The contract of an engine."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.engines._folding import folded
from radii.errors import ParameterError
from radii.plugins import Component
from radii.smoothing.addresses import Purpose, generator
from radii.smoothing.logits import check_logits, check_rows
from radii.smoothing.modes import evaluating
from radii.smoothing.noise import Noise

PROBE: Purpose = "probe"
CALIBRATION: Purpose = "calibrate"


@dataclass(frozen=True)
class EngineSpec:
    """The model and inputs that an engine is prepared for."""

    original: nn.Module
    """The model as it was trained, in eval mode: what every engine is compared with."""
    shape: tuple[int, int, int]
    noise: Noise
    batch_size: int
    artefact: Path
    """Where an engine may store files, without the suffix."""
    calibration_images: Callable[[], Tensor]
    """Training images to calibrate on: [image, channel, height, width]."""
    examples: Callable[[], Tensor] | None = None
    """Training images to compare engines on; where there are none, drawn images are used."""

    @cached_property
    def model(self) -> nn.Module:
        """The original with BatchNorm folded where that keeps the function.

        That is decided on drawn images, so that the model does not depend on whether training images are available.
        """
        return folded(self.original, self._block(drawn(self.batch_size, self.shape)))

    @property
    def device(self) -> torch.device:
        return next((parameter.device for parameter in self.original.parameters()), torch.device("cpu"))

    @cached_property
    def probe(self) -> Tensor:
        """A block of training images under noise, or of drawn ones."""
        return self._block(drawn(self.batch_size, self.shape) if self.examples is None else self.examples())

    @cached_property
    def wanted(self) -> Tensor:
        """The original's logits on the probe."""
        with evaluating(self.original), torch.inference_mode():
            return check_logits(self.original(self.probe), len(self.probe))

    def _block(self, images: Tensor) -> Tensor:
        rows = torch.arange(self.batch_size) % len(images)
        return self.noisy(images[rows], PROBE).to(self.device)

    def noisy(self, images: Tensor, purpose: Purpose) -> Tensor:
        """Noisy images in channels-last format."""
        images = self.noise.nearest(images)
        noisy = self.noise.perturb(images, torch.empty_like(images), generator("cpu", purpose))
        return noisy.contiguous(memory_format=torch.channels_last)


def drawn(count: int, shape: tuple[int, int, int]) -> Tensor:
    """Random smooth images of various contrasts, as varied as photographs: [image, channel, height, width]."""
    rng = generator("cpu", PROBE, 1)
    coarse = torch.randn(count, shape[0], 4, 4, generator=rng)
    contrast = 4 * torch.rand(count, 1, 1, 1, generator=rng)
    smooth = F.interpolate(coarse, shape[1:], mode="bilinear", align_corners=True)
    # Rounded to the levels of an 8-bit image.
    return (255 * torch.sigmoid(contrast * smooth)).round() / 255


@dataclass(frozen=True, kw_only=True)
class Engine(Component, ABC):
    """A way to run forward passes.

    A certificate holds for the function that ran, so the engine is part of its record and the one to deploy.
    """

    registry: ClassVar[str] = "engine"
    automatic: ClassVar[bool] = False
    """Whether `auto` may choose it: it is quick to prepare and keeps the function up to rounding."""
    least_agreement: ClassVar[float] = 1.0
    """The share of a probe on which it has to give the original model's class; all of it where it only rounds."""
    calibrates: ClassVar[bool] = False
    """Whether it needs training images."""

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
        if len(images) > self.block:
            raise ParameterError(
                f"the engine was prepared for blocks of up to {self.block} images, got {len(images)}: "
                f"use batch_size {self.block}",
                "batch_size",
            )
        missing = (0, 0) * 3 + (0, self.block - len(images))
        rows_first = F.pad(images.permute(0, 2, 3, 1), missing) if missing[-1] else images.permute(0, 2, 3, 1)
        logits = self.function(rows_first.contiguous().permute(0, 3, 1, 2))
        # Checked before the padding is removed, which would also remove surplus rows.
        return check_rows(logits, self.block)[: len(images)]

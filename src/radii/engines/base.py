"""The contract of an engine, and how a model is prepared for one: converted, compared with torch, timed for `auto`."""

import copy
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii import plugins
from radii.engines._folding import FOLDING, folded
from radii.errors import ParameterError
from radii.onnx_graph import has_graph
from radii.plugins import Component
from radii.smoothing.addresses import Purpose, generator
from radii.smoothing.forward import channels_last, evaluating, without_tf32
from radii.smoothing.logits import check_logits, check_rows, double, rounding
from radii.smoothing.noise.base import Noise

AUTO = "auto"
CPU = torch.device("cpu")
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
        """Return the original with BatchNorm folded where that keeps the function.

        That is decided on drawn images, so that the model does not depend on whether training images are available.
        """
        return folded(self.original, self._block(drawn(self.batch_size, self.shape)))

    @property
    def device(self) -> torch.device:
        return device_of(self.original)

    @cached_property
    def probe(self) -> Tensor:
        """Return a block of training images under noise, or of drawn ones."""
        return self._block(drawn(self.batch_size, self.shape) if self.examples is None else self.examples())

    @cached_property
    def expected(self) -> Tensor:
        """Return the original's logits on the probe."""
        with evaluating(self.original), torch.inference_mode(), without_tf32():
            return check_logits(self.original(self.probe), len(self.probe))

    def _block(self, images: Tensor) -> Tensor:
        rows = torch.arange(self.batch_size) % len(images)
        return self.noisy(images[rows], PROBE).to(self.device)

    def noisy(self, images: Tensor, purpose: Purpose) -> Tensor:
        """Add noise to images; the result is in channels-last format."""
        images = self.noise.nearest(images)
        noisy = self.noise.perturb(images, torch.empty_like(images), generator("cpu", purpose))
        return noisy.contiguous(memory_format=torch.channels_last)


def drawn(count: int, shape: tuple[int, int, int]) -> Tensor:
    """Draw random smooth images of various contrasts, as varied as photographs: [image, channel, height, width]."""
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
        """Return whether the engine is installed and runs on a device."""
        return True

    @abstractmethod
    def prepare(self, spec: EngineSpec) -> nn.Module:
        """Convert the model to the form that this engine runs, for blocks of up to `spec.batch_size` images."""


class OnCpu(nn.Module):
    """A form that runs on the CPU, for images on another device."""

    def __init__(self, form: nn.Module) -> None:
        super().__init__()
        self.form = form

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.form(images.cpu())
        return logits.to(images.device)


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


class Half(nn.Module):
    """Runs a copy of a model in 16-bit floating point; its logits are 16-bit too, so that comparisons allow for it."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = channels_last(copy.deepcopy(model).to(dtype))
        self.dtype = dtype

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images.to(self.dtype))
        return logits


TIMED, LONG_ENOUGH = 5, 1.0
"""An engine is timed by so many forward passes, but by no more after so many seconds."""


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's weights; a model with an ONNX graph runs on the CPU."""
    if has_graph(model):
        return CPU
    return next((tensor.device for tensor in (*model.parameters(), *model.buffers())), CPU)


def default_batch_size(device: torch.device, numbers: int | None = None) -> int:
    """Return how many noisy copies a forward pass has: on a GPU fewer of larger images, of `numbers` numbers each."""
    if device.type == "cpu":
        return 128
    return 512 if numbers is None or numbers > 3 * 64 * 64 else 1024 if numbers > 3 * 32 * 32 else 2048


def names() -> list[str]:
    return plugins.names("engines")


def create(name: str, **fields: Any) -> Engine:
    """Make an engine by name; `fields` are its parameters."""
    return plugins.create("engines", Engine, name, fields)


def only_rounds(name: str) -> bool:
    """Return whether an engine has to give the original model's logits, up to rounding in 32 bits."""
    return create(name).least_agreement == 1.0


def prepare(spec: EngineSpec, engine: str) -> tuple[str, nn.Module]:
    """Return the engine's name and the model in its form. `auto` is the fastest engine that keeps the function."""
    if has_graph(spec.original):
        if engine not in (AUTO, "onnx"):
            raise ParameterError(f"the engine {engine!r} cannot run an ONNX model: use 'onnx'", "engine")
        return "onnx", spec.original
    spec.expected  # noqa: B018  raises first if no engine could run the model
    if engine == AUTO:
        return _fastest(spec)
    chosen = create(engine)
    if not chosen.runs_on(spec.device) and chosen.runs_on(CPU):
        form: nn.Module = OnCpu(_form(chosen, engine, replace(spec, original=copy.deepcopy(spec.original).to(CPU))))
    else:
        form = _form(chosen, engine, spec)
    _expect_agreement(spec, engine, form, chosen.least_agreement)
    return engine, form


class EngineError(ParameterError):
    """An engine cannot convert a model."""


def _form(engine: Engine, name: str, spec: EngineSpec) -> nn.Module:
    """Convert the model to the engine's form; raise an EngineError with a short reason if that fails."""
    try:
        return engine.prepare(spec)
    except (ValueError, LookupError, ImportError, OSError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {(str(error).strip() or 'no reason').splitlines()[0][:200]}"
        raise EngineError(f"the engine {name!r} cannot convert this model ({reason}): use 'torch'", "engine") from error


def _expect_agreement(spec: EngineSpec, engine: str, form: nn.Module, least: float) -> None:
    if (share := agreement(spec, form, exact=least == 1.0)) < least:
        raise ParameterError(
            f"the engine {engine!r} gives the trained model's answer on {math.floor(1000 * share) / 10:g} % of a "
            f"probe, expected {100 * least:g} %: use another",
            "engine",
        )


def agreement(spec: EngineSpec, form: nn.Module, *, exact: bool = True) -> float:
    """Return the share of a probe block on which an engine and the original model give the same answer, up to rounding.

    That is the class, where an image whose two best logits differ by no more than rounding may get either; and, of an
    `exact` engine, which only rounds, all logits.
    """
    with torch.inference_mode(), without_tf32():
        logits = check_logits(form(spec.probe), *spec.expected.shape).cpu()
    expected = double(spec.expected)
    best, predicted = expected.argmax(1, keepdim=True), logits.argmax(1, keepdim=True)
    lead = expected.gather(1, best) - expected.gather(1, predicted)
    tolerance = rounding(expected, factor=2 * FOLDING)
    same = (lead <= tolerance.gather(1, best)).squeeze(1)
    if exact:
        same &= ((double(logits) - expected).abs() <= tolerance).all(1)
    return float(same.double().mean())


def _fastest(spec: EngineSpec) -> tuple[str, nn.Module]:
    forms = {"torch": spec.model}
    _expect_agreement(spec, "torch", spec.model, 1.0)
    for engine in _automatic(spec):
        with suppress(EngineError):  # `auto` leaves out engines that cannot convert the model
            form = _form(engine, engine.name, spec)
            if agreement(spec, form) == 1.0:
                forms[engine.name] = form
    name = min(forms, key=lambda name: _seconds(forms[name], spec.probe)) if len(forms) > 1 else "torch"
    return name, forms[name]


def _automatic(spec: EngineSpec) -> list[Engine]:
    """Return the engines beside plain torch that `auto` may choose here."""
    others = [create(name) for name in names() if name != "torch"]
    return [engine for engine in others if engine.automatic and engine.runs_on(spec.device)]


def _seconds(form: nn.Module, probe: Tensor) -> float:
    """Return the least time of five forward passes, or of as many as fit into a second; the check has warmed up."""
    seconds: list[float] = []
    with torch.inference_mode():
        while len(seconds) < TIMED and sum(seconds) < LONG_ENOUGH:
            began = time.perf_counter()
            form(probe).sum().item()  # waits until a GPU is done
            seconds.append(time.perf_counter() - began)
    return min(seconds)

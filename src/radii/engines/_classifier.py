"""The smoothed classifier that users make: any nn.Module, run by an engine."""

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.engines._prepare import AUTO, create, prepare
from radii.engines._state import state_of
from radii.engines.base import EngineSpec, drawn
from radii.errors import ParameterError
from radii.onnx import OnnxGraph
from radii.smoothing import classifier as smoothing
from radii.smoothing.logits import unwrapped
from radii.smoothing.modes import evaluating
from radii.smoothing.noise import Noise
from radii.smoothing.probe import BlockProbe

DEFAULT = "torch"


@dataclass(frozen=True)
class _Prepared:
    """The base in an engine's form, and what it was prepared from."""

    engine: str
    form: nn.Module
    made_of: Hashable | None
    """The state of the base; None where the caller sees to it that the base does not change."""


class SmoothedClassifier(smoothing.SmoothedClassifier):
    """The most likely class of a base classifier under noise.

    `base` is any nn.Module that maps images [batch, channel, height, width] with pixels in [0, 1] to logits
    [batch, class], or to an output that has them as `logits`. `sigma` is short for noise=Gaussian(sigma); `names` are
    the names of the classes.

    `engine` runs the forward passes: "torch" (BatchNorm folded where that keeps the function, the base itself
    otherwise), "openvino", "openvino_bf16", "onnx", "compile", or "auto", the fastest that only rounds differently. The
    form that it runs is prepared at the first image of every size and compared with the base, on that image and on
    drawn ones; it is prepared again when weights, buffers, hooks or attributes of the base have changed. What a forward
    pass reads from anywhere else, such as global variables, must not change.

    Outputs that depend on anything but the image are refused (`BlockProbe`): the first image of every size costs 4.5
    more forward passes of a block. Threads may share a classifier.

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    >>> radii.SmoothedClassifier(model, sigma=0.25, classes=10)
    SmoothedClassifier(Sequential, noise=Gaussian(sigma=0.25), classes=10, engine='torch')
    """

    def __init__(
        self,
        base: nn.Module,
        *,
        sigma: float | None = None,
        classes: int,
        noise: Noise | None = None,
        batch_size: int = 128,
        engine: str | None = None,
        names: Sequence[str] | None = None,
        artefact: Path | None = None,
    ) -> None:
        super().__init__(base, sigma=sigma, classes=classes, noise=noise, batch_size=batch_size, names=names)
        self.engine = _checked(engine, base, artefact)
        self.artefact = artefact
        """Where an engine that calibrates keeps its files, for the classifier of a run."""
        self._lock = threading.RLock()
        self._forms: dict[Hashable, _Prepared] = {}

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, engine={self.engine!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Without what is prepared: another process prepares it again."""
        return {**vars(self), "_lock": None, "_forms": {}, "_probe": BlockProbe()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "_lock": threading.RLock()})

    def state(self) -> Hashable:
        """Equal as long as the base is the same function: it changes with weights, buffers, hooks and attributes."""
        return state_of(self.base)

    def prepared_for(self, image: Tensor) -> tuple[str, nn.Module]:
        """The engine that runs images of this size, which is the one that `auto` chose, and the base in its form."""
        found = self._prepared(image.to(self.device, torch.float32).permute(1, 2, 0))
        return found.engine, found.form

    def adopt(self, engine: str, image: Tensor, form: nn.Module, *, watched: bool = False) -> None:
        """Use a form of the base that an engine has prepared and compared for images of this size.

        It is not prepared again when the base changes, unless it is `watched`, which takes time.
        """
        self.engine = engine
        self._forms[self._key(image.permute(1, 2, 0))] = _Prepared(engine, form, self.state() if watched else None)

    def _form(self, pixels: Tensor) -> nn.Module:
        return self._prepared(pixels).form

    def _prepared(self, pixels: Tensor) -> _Prepared:
        key = self._key(pixels)
        with self._lock:
            found = self._forms.get(key)
            if found is not None and self._is_stale(found):
                self._forms, self._probe = {}, BlockProbe()  # which holds the forms that have passed
                found = None
            if found is None:
                engine, form = self._prepare(pixels)
                found = self._forms[key] = _Prepared(engine, form, self.state())
            return found

    def _is_stale(self, found: _Prepared) -> bool:
        return found.made_of is not None and found.form is not self.base and found.made_of != self.state()

    def _key(self, pixels: Tensor) -> Hashable:
        return self.base, self.engine, self.noise, self.batch_size, tuple(pixels.shape)

    def _prepare(self, pixels: Tensor) -> tuple[str, nn.Module]:
        with evaluating(self.base):
            output = self._output(self.base, pixels[None])
        original = self.base if isinstance(output, Tensor) or unwrapped(output) is output else _LogitsOf(self.base)
        try:
            return prepare(self._spec(original, pixels), self.engine)
        except Exception:
            if self.engine != DEFAULT:
                raise
            return DEFAULT, self.base  # as it is: what is wrong with it, if anything, the probe finds

    def _spec(self, original: nn.Module, pixels: Tensor) -> EngineSpec:
        image = pixels.permute(2, 0, 1)[None].cpu()
        shape = (image.shape[1], image.shape[2], image.shape[3])

        def examples() -> Tensor:
            return torch.cat([image.expand(self.batch_size, *shape), drawn(self.batch_size, shape)])[::2]

        artefact = self.artefact or Path()
        return EngineSpec(original, shape, self.noise, self.batch_size, artefact, _no_calibration, examples)


class _LogitsOf(nn.Module):
    """A classifier whose output has the logits as an attribute, as a module that returns them alone."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.base(images).logits
        return logits


def _checked(engine: str | None, base: nn.Module, artefact: Path | None) -> str:
    if engine is None:
        return "onnx" if any(isinstance(module, OnnxGraph) for module in base.modules()) else DEFAULT
    if not isinstance(engine, str):
        raise ParameterError(f"engine = {engine!r}, expected the name of an engine, such as 'torch'", "engine")
    if engine != AUTO and create(engine).calibrates and artefact is None:
        raise ParameterError(
            f"the engine {engine!r} needs training images to calibrate on: import the model as a run, and load that",
            "engine",
        )
    return engine


def _no_calibration() -> Tensor:
    raise ParameterError("there are no training images here to calibrate on: load the run, and name its data", "engine")

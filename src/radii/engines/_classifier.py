"""The smoothed classifier: any nn.Module under noise, run by an engine."""

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.engines._module import SmoothedModule
from radii.engines._state import state_of
from radii.engines.base import AUTO, PROBE, EngineSpec, create, default_batch_size, device_of, drawn, prepare
from radii.errors import ParameterError
from radii.onnx_graph import has_graph
from radii.smoothing.addresses import NoiseAddress, generator
from radii.smoothing.forward import evaluating
from radii.smoothing.logits import check_logits, check_rows, double, unwrapped
from radii.smoothing.noise.base import Noise
from radii.smoothing.noise.gaussian import Gaussian
from radii.smoothing.normalisation import Normalised
from radii.smoothing.packing import answer_tasks
from radii.smoothing.probe import BlockProbe
from radii.smoothing.questions import Answer, Task, Votes

DEFAULT = "torch"
PROBED_IMAGES, PROBED_CLASSES = 8, 16
"""A header records the logits of so many random images, for at most so many classes."""
PROBE_NOISES = (Gaussian(0.25), Gaussian(1.0))
"""The noises of the probe. Activations that are alike near 0 differ at the values that strong noise reaches."""


@dataclass(frozen=True)
class _Prepared:
    """The base in an engine's form, and the state that it was prepared from."""

    engine: str
    form: nn.Module
    state: Hashable | None
    """The state of the base; None if the caller ensures that the base does not change."""


class SmoothedClassifier:
    """The most likely class of a base classifier under noise.

    `base` is any nn.Module that maps images [batch, channel, height, width] with pixels in [0, 1] to logits
    [batch, class], or to an output that has them as `logits`. `sigma` is short for noise=Gaussian(sigma); `names` are
    the names of the classes; `mean` and `std` those that the base expects its pixels to be normalised by. With a
    `shape` (channel, height, width), images of another shape are refused; the classifier of a run has one.

    `engine` runs the forward passes: "torch" (with BatchNorm folded if that keeps the function, otherwise the base
    itself), "torch_bf16", "torch_fp16", "openvino", "openvino_bf16", "onnx", "compile", or "auto", the fastest that
    only rounds differently. The engine prepares its form of the base at the first image of every size, and compares it
    with the base on that image and on random ones. It prepares it again when weights, buffers, hooks or attributes of
    the base have changed. What a forward pass reads from elsewhere, such as global variables, must not change. Nor must
    the `data` of weights on a GPU be changed in place: only a new classifier would notice.

    A base whose output depends on anything but the image is refused (`BlockProbe`); this check costs 4.5 forward passes
    at the first image of every size. Threads may share a classifier.

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
        batch_size: int | None = None,
        engine: str | None = None,
        names: Sequence[str] | None = None,
        artefact: Path | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        if (sigma is None) == (noise is None):
            raise ValueError("a smoothed classifier needs either sigma or noise, and not both")
        if not isinstance(base, nn.Module):
            raise ValueError(f"the base classifier is a {type(base).__name__}, expected a torch.nn.Module")
        if noise is not None and not isinstance(noise, Noise):
            raise ValueError(f"noise = {noise!r}, expected a noise, such as radii.smoothing.noise.create('grid', ...)")
        if mean is not None or std is not None:
            base = Normalised(base, mean or (), std or ())
        if batch_size is None:
            batch_size = default_batch_size(device_of(base))
        for name, value, least in (("classes", classes, 2), ("batch_size", batch_size, 1)):
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} = {value!r}, expected at least {least}, a whole number")
        self.base = base
        self.noise = noise or Gaussian(float(sigma) if isinstance(sigma, Real) else cast(float, sigma))
        self.classes = int(classes)
        self.batch_size = int(batch_size)
        self.names = None if names is None else _checked_names(names, self.classes)
        self.shape = None if shape is None else tuple(shape)
        """The shape of the images that are taken; None for any."""
        self.engine = _checked_engine(engine, base, artefact)
        self.artefact = artefact
        """Where an engine that calibrates keeps its files; only the classifier of a run has them."""
        self._lock = threading.RLock()
        self._forms: dict[Hashable, _Prepared] = {}
        self._probe = BlockProbe()
        self._compared = False
        """Whether the process that sent this classifier has compared the engine with the base already."""

    def __repr__(self) -> str:
        base, noise = type(self.base).__name__, self.noise
        return f"SmoothedClassifier({base}, noise={noise!r}, classes={self.classes}, engine={self.engine!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without prepared forms: another process prepares them again."""
        return {**vars(self), "_lock": None, "_forms": {}, "_probe": BlockProbe(), "_compared": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "_lock": threading.RLock()})

    @property
    def sigma(self) -> float:
        """The standard deviation of Gaussian noise."""
        if not isinstance(self.noise, Gaussian):
            raise AttributeError(f"the noise {self.noise} has no sigma: use `noise`")
        return self.noise.sigma

    @property
    def device(self) -> torch.device:
        """The device of the base classifier."""
        return device_of(self.base)

    def count(self, tasks: Sequence[Task]) -> list[Answer]:
        """Answer the question of every task; tasks about images of one size share forward passes."""
        answers: dict[int, Answer] = {}
        sizes: dict[torch.Size, list[int]] = {}
        for number, task in enumerate(tasks):
            check_image(task.image)
            self._check_shape(tuple(task.image.shape))
            self.noise.check(task.image)
            sizes.setdefault(task.image.shape, []).append(number)
        for numbers in sizes.values():
            answers.update(zip(numbers, self._count([tasks[number] for number in numbers]), strict=True))
        return [answers[number] for number in range(len(tasks))]

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if self.shape is None or shape == self.shape:
            return
        got, expected = (" x ".join(map(str, sides)) for sides in (shape, self.shape))
        grey = " It is grey: repeat its channel." if shape[0] == 1 and self.shape[0] == 3 else ""
        raise ParameterError(
            f"the image is {got} (channels, height, width), the model was trained on {expected}.{grey} "
            "Prepare it as the training images, or set the classifier's shape to None.",
            "image",
        )

    def votes(self, image: Tensor, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        """Count how often each class wins over `samples` noisy copies: [class]."""
        return self.count([Task(image, noise, Votes(noise.stage, 0, samples))])[0]

    def _count(self, tasks: Sequence[Task]) -> list[Answer]:
        device = self.device
        pixels = tasks[0].image.detach().to(torch.float32).permute(1, 2, 0)
        form = self._prepared(pixels).form
        with evaluating(form):
            self._probe.check(form, partial(self._logits, form), pixels, self.noise, self.batch_size, device)
            return answer_tasks(tasks, self.noise, self.batch_size, device, partial(self._rows, form))

    def as_module(self, samples: int = 32, *, seed: int | None = None, logits: bool = False) -> SmoothedModule:
        """Return a torch module of the mean class probabilities over `samples` noisy copies: [batch, class].

        It has gradients, for attacks and metrics of other libraries; it proves nothing, and it runs the base itself
        and not an engine. The noise is fresh in every call; with a `seed`, all calls and images have the same noise,
        so that the output is a function of the image alone. Attack libraries expect `logits=True`: the logarithms of
        the probabilities.

        >>> import torch, radii
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
        >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=10)
        >>> smoothed.as_module(samples=8)(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 10])
        """
        return SmoothedModule(self.base, self.noise, self.classes, samples, seed, logits)

    def state(self) -> Hashable:
        """Return a value that changes when weights, buffers, hooks or attributes of the base do."""
        return state_of(self.base)

    def probe_logits(self, shape: tuple[int, int, int], image: Tensor | None = None) -> list[list[float]]:
        """Return rounded logits of some random images, or of one image, under noise: a header recognises them.

        Of many classes some are taken. The last number of a row is the logsumexp of all logits.
        """
        images = drawn(PROBED_IMAGES, shape) if image is None else image.cpu().float().expand(PROBED_IMAGES, *shape)
        images = images[: self.batch_size]
        logits = torch.cat([self._probe_block(images, noise) for noise in PROBE_NOISES])
        step = -(-self.classes // PROBED_CLASSES)
        rows = torch.cat([logits[:, ::step], logits.logsumexp(1, keepdim=True)], 1)
        return [[float(f"{value:.6g}") for value in row] for row in rows.tolist()]

    def _probe_block(self, images: Tensor, noise: Gaussian) -> Tensor:
        noisy = noise.perturb(images, torch.empty_like(images), generator("cpu", PROBE, 3))
        block = noisy.to(self.device).permute(0, 2, 3, 1).contiguous()
        form = self._prepared(block[0]).form
        with evaluating(form):
            return double(self._logits(form, block))

    def prepared_for(self, image: Tensor) -> tuple[str, nn.Module]:
        """Return the engine that runs images of this size (for `auto`, the chosen one) and its form of the base."""
        prepared = self._prepared(image.to(self.device, torch.float32).permute(1, 2, 0))
        return prepared.engine, prepared.form

    def adopt(self, engine: str, image: Tensor, form: nn.Module, *, watched: bool = False) -> None:
        """Use a form of the base that an engine has already prepared and compared for images of this size.

        It is prepared again when the base changes only if it is `watched`, which takes time.
        """
        self.engine = engine
        self._forms[self._key(image.permute(1, 2, 0))] = _Prepared(engine, form, self.state() if watched else None)

    def _prepared(self, pixels: Tensor) -> _Prepared:
        key = self._key(pixels)
        with self._lock:
            prepared = self._forms.get(key)
            if prepared is not None and self._is_stale(prepared):
                self._forms, self._probe = {}, BlockProbe()  # the probe holds forms that have passed
                prepared = None
            if prepared is None:
                engine, form = self._prepare(pixels)
                prepared = self._forms[key] = _Prepared(engine, form, self.state())
            return prepared

    def _is_stale(self, prepared: _Prepared) -> bool:
        return prepared.state is not None and prepared.form is not self.base and prepared.state != self.state()

    def _key(self, pixels: Tensor) -> Hashable:
        return self.base, self.device, self.engine, self.noise, self.batch_size, tuple(pixels.shape)

    def _prepare(self, pixels: Tensor) -> tuple[str, nn.Module]:
        with evaluating(self.base):
            output = self._output(self.base, pixels[None].to(self.device, copy=True))  # the base may work in place
        original = self.base if isinstance(output, Tensor) or unwrapped(output) is output else _LogitsOf(self.base)
        try:
            return prepare(self._spec(original, pixels), self.engine)
        except Exception:
            if self.engine != DEFAULT:
                raise
            return DEFAULT, self.base  # if something is wrong with the base, the probe finds it

    def _spec(self, original: nn.Module, pixels: Tensor) -> EngineSpec:
        image = pixels.permute(2, 0, 1)[None].cpu()
        shape = (image.shape[1], image.shape[2], image.shape[3])

        def examples() -> Tensor:
            return torch.cat([image.expand(self.batch_size, *shape), drawn(self.batch_size, shape)])[::2]

        artefact = self.artefact or Path()
        compared_on = None if self._compared else examples
        return EngineSpec(original, shape, self.noise, self.batch_size, artefact, _no_calibration, compared_on)

    def _logits(self, form: nn.Module, block: Tensor) -> Tensor:
        """Return the logits of a block [batch, height, width, channel]."""
        return check_logits(self._output(form, block), len(block), self.classes)

    def _rows(self, form: nn.Module, block: Tensor) -> Tensor:
        """Return the logits of a block without looking at them: a GPU would have to be waited for."""
        return check_rows(self._output(form, block), len(block), self.classes)

    # Around each forward pass and not around the loop, so that a caller who iterates over blocks keeps its own mode.
    @torch.inference_mode()
    def _output(self, form: nn.Module, block: Tensor) -> object:
        """Call a module with a block [batch, height, width, channel]."""
        try:
            return form(block.permute(0, 3, 1, 2))
        except torch.OutOfMemoryError as error:
            raise ParameterError(
                f"the device has not enough memory for a pass of {len(block)} noisy copies: state a smaller batch size",
                "batch_size",
            ) from error
        except Exception as error:
            rows, height, width, channels = block.shape
            reason = (str(error).splitlines() or [""])[0]
            raise ParameterError(
                f"the base classifier does not take {rows} images of {channels} x {height} x {width} "
                f"(channels x height x width): {type(error).__name__}: {reason}",
                "base",
            ) from error


class _LogitsOf(nn.Module):
    """A classifier whose output has the logits as an attribute, as a module that returns them alone."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.base(images).logits
        return logits


def _checked_engine(engine: str | None, base: nn.Module, artefact: Path | None) -> str:
    if engine is None:
        return "onnx" if has_graph(base) else DEFAULT
    if not isinstance(engine, str):
        raise ParameterError(f"engine = {engine!r}, expected the name of an engine, such as 'torch'", "engine")
    if engine != AUTO and create(engine).calibrates and artefact is None:
        raise ParameterError(
            f"the engine {engine!r} needs training images to calibrate on: import the model as a run, and load the run",
            "engine",
        )
    return engine


def _no_calibration() -> Tensor:
    raise ParameterError("there are no training images here to calibrate on: load the run, and name its data", "engine")


def _checked_names(names: Sequence[str], classes: int) -> tuple[str, ...]:
    """Return the names of the classes, or raise a ValueError."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names = {names!r}, expected the name of every class, such as ('cat', 'dog')")
    if len(names) != classes:
        raise ValueError(f"names has {len(names)} names, expected one for each of {classes} classes")
    return tuple(names)


def expect_smoothed(classifier: object) -> None:
    """Raise a ValueError for what is not a smoothed classifier, such as its base."""
    if not isinstance(classifier, SmoothedClassifier):
        raise ValueError(
            f"the classifier is a {type(classifier).__name__}, expected a radii.SmoothedClassifier: make one of it"
        )


def check_image(image: Tensor) -> None:
    """Raise a ValueError unless this is one image with pixels in [0, 1]."""
    if not isinstance(image, Tensor):
        raise ValueError(f"the image is a {type(image).__name__}, expected a torch.Tensor: torch.from_numpy makes one")
    if image.ndim != 3:
        raise ValueError(f"the image has shape {list(image.shape)}, expected [channel, height, width]: one image")
    if not image.numel():
        raise ValueError(f"the image has shape {list(image.shape)}: it has no pixels")
    if not image.is_floating_point():
        raise ValueError(f"the image holds {image.dtype}, expected floating-point pixels in [0, 1]: divide by 255")
    low, high = float(image.min()), float(image.max())
    if not (low >= 0.0 and high <= 1.0):
        raise ValueError(f"the image has pixels from {low:g} to {high:g}, expected finite numbers in [0, 1]")

"""The smoothed classifier: the most likely class of a base classifier under noise."""

from collections.abc import Iterator, Sequence
from functools import partial
from numbers import Integral, Real
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.logits import check_logits
from radii.smoothing.modes import evaluating
from radii.smoothing.noise import Gaussian, Noise
from radii.smoothing.probe import BlockProbe


class SmoothedClassifier:
    """The most likely class of a base classifier under noise.

    `base` maps images [batch, channel, height, width] with pixels in [0, 1] to logits [batch, class]. `sigma` is short
    for noise=Gaussian(sigma). `batch_size` is the forward block: part of a certificate's identity, because
    floating-point results depend on it.

    A base whose output for an image depends on anything but that image is refused (`BlockProbe`): the first image of
    every size costs 4.5 more forward passes of a block. Threads may share a classifier. `names` are the names of the
    classes, in the order of the logits.
    """

    def __init__(
        self,
        base: nn.Module,
        *,
        sigma: float | None = None,
        classes: int,
        noise: Noise | None = None,
        batch_size: int = 128,
        names: Sequence[str] | None = None,
    ) -> None:
        if (sigma is None) == (noise is None):
            raise ValueError("a smoothed classifier needs either sigma or noise, and not both")
        if not isinstance(base, nn.Module):
            raise ValueError(f"the base classifier is a {type(base).__name__}, expected a torch.nn.Module")
        if noise is not None and not isinstance(noise, Noise):
            raise ValueError(f"noise = {noise!r}, expected a noise, such as radii.smoothing.noise.create('grid', ...)")
        for name, value, least in (("classes", classes, 2), ("batch_size", batch_size, 1)):
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} = {value!r}, expected at least {least}, a whole number")
        self.base = base
        self.noise = noise or Gaussian(float(sigma) if isinstance(sigma, Real) else cast(float, sigma))
        self.classes = int(classes)
        self.batch_size = int(batch_size)
        self.names = None if names is None else _names(names, self.classes)
        self._probe = BlockProbe()

    def __repr__(self) -> str:
        return f"SmoothedClassifier({type(self.base).__name__}, noise={self.noise!r}, classes={self.classes})"

    @property
    def sigma(self) -> float:
        """The standard deviation of Gaussian noise."""
        if not isinstance(self.noise, Gaussian):
            raise AttributeError(f"the noise {self.noise} has no sigma: ask for `noise`")
        return self.noise.sigma

    def votes(self, image: Tensor, samples: int, noise: NoiseAddress) -> NDArray[np.int64]:
        """How often each class wins over `samples` noisy copies: [class]."""
        counts = torch.zeros(self.classes, dtype=torch.int64, device=self.device)
        for logits in self._noisy_logits(image, samples, noise):
            counts += torch.bincount(logits.argmax(1), minlength=self.classes)
        return np.asarray(counts.cpu().numpy(), dtype=np.int64)

    def moments(
        self, image: Tensor, samples: int, noise: NoiseAddress
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over `samples` noisy copies of the class probabilities and of their squares: two [class]."""
        sums, squares = np.zeros(self.classes), np.zeros(self.classes)
        for probabilities in self.probabilities(image, samples, noise):
            sums += probabilities.sum(0)
            squares += (probabilities**2).sum(0)
        return sums, squares

    def probabilities(
        self, image: Tensor, samples: int, noise: NoiseAddress, sharpness: float = 1.0
    ) -> Iterator[NDArray[np.float64]]:
        """Softmax of `sharpness` times the logits of the noisy copies, block by block: [block, class]."""
        for logits in self._noisy_logits(image, samples, noise):
            yield (sharpness * logits.double()).softmax(1).cpu().numpy()

    def _noisy_logits(self, image: Tensor, samples: int, noise: NoiseAddress) -> Iterator[Tensor]:
        if samples < 1:
            raise ValueError(f"samples = {samples}, expected at least 1")
        check_image(image)
        channels, height, width = image.shape
        device = self.device
        # Channels last: the fastest memory format for convolutions on a CPU.
        block = torch.empty(min(samples, self.batch_size), height, width, channels, device=device)
        pixels = image.detach().to(device, torch.float32).permute(1, 2, 0)
        form = self._form(pixels)
        with evaluating(form):
            self._check_base(form, pixels, samples)
            for number, start in enumerate(range(0, samples, self.batch_size)):
                noisy = block[: min(self.batch_size, samples - start)]
                self.noise.perturb(pixels, noisy, noise.generator(number, device))
                yield self._logits(form, noisy)

    def _form(self, pixels: Tensor) -> nn.Module:
        """The module that computes the base's logits of images [height, width, channel] like this one."""
        return self.base

    @property
    def device(self) -> torch.device:
        """Where the base classifier is."""
        return next((tensor.device for tensor in self.base.parameters()), torch.device("cpu"))

    def _logits(self, form: nn.Module, block: Tensor) -> Tensor:
        """Logits of a block [batch, height, width, channel]."""
        return check_logits(self._output(form, block), len(block), self.classes)

    # Around each forward pass, not the loop: the caller that iterates over blocks keeps its own mode.
    @torch.inference_mode()
    def _output(self, form: nn.Module, block: Tensor) -> object:
        """What a module returns for a block [batch, height, width, channel]."""
        try:
            return form(block.permute(0, 3, 1, 2))
        except Exception as error:
            rows, height, width, channels = block.shape
            reason = (str(error).splitlines() or [""])[0]
            raise ParameterError(
                f"the base classifier does not take {rows} images of {channels} x {height} x {width} "
                f"(channels x height x width): {type(error).__name__}: {reason}",
                "base",
            ) from error

    def _check_base(self, form: nn.Module, pixels: Tensor, samples: int) -> None:
        """Check the base once per image size and block length; otherwise the votes are not those of one function."""
        lengths = {min(samples, self.batch_size), samples % self.batch_size or self.batch_size}
        self._probe.check(form, partial(self._logits, form), pixels, self.noise, self.batch_size, lengths)


def _names(names: Sequence[str], classes: int) -> tuple[str, ...]:
    """The names of the classes, checked."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names = {names!r}, expected the name of every class, such as ('cat', 'dog')")
    if len(names) != classes:
        raise ValueError(f"names has {len(names)} names, expected one for each of {classes} classes")
    return tuple(names)


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

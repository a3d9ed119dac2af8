"""The contract of a noise."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.errors import ParameterError
from radii.plugins import Component
from radii.smoothing.addresses import PHILOX
from radii.smoothing.norms import L2_NOISES, Norm, norm_of
from radii.smoothing.streams import Stream

Probability = TypeVar("Probability", float, NDArray[np.float64])


@dataclass(frozen=True)
class Noise(Component, ABC):
    """How an image is perturbed, and the radius that votes under the noise certify.

    Fields are its parameters. Nothing else in the package turns a probability into a radius.
    """

    registry: ClassVar[str] = "noise"
    norm: ClassVar[Norm]
    """The norm of the radius: L1, L2 or LINF of `radii.smoothing.norms`, or its name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "norm") and "radius" in vars(cls):
            raise TypeError(f"{cls.__name__} has radii of no norm. State it: norm = L1, L2 or LINF")
        if "norm" in vars(cls):
            cls.norm = norm_of(cls.norm)

    @abstractmethod
    def perturb(self, pixels: Tensor, out: Tensor, rng: torch.Generator) -> Tensor:
        """Fill `out` [copy, ...] with noisy copies of `pixels` [...], all randomness from `rng`, and return it."""

    def draw(self, pixels: Tensor, out: Tensor, stream: Stream, first: int) -> Tensor:
        """Fill `out` [copy, ...] with the noisy copies `first`, `first` + 1, ... of `pixels` [...], and return it.

        All randomness is from `stream`, and that of a copy from the row of its number, so that copies are the same in
        any batches and on any device. A noise without this method is drawn by `perturb`, in blocks of the batch size.
        """
        raise TypeError(f"the noise {self.name!r} does not draw copies by their numbers: use `perturb`")

    def offsets(self, images: Tensor, copies: int, rng: torch.Generator) -> Tensor:
        """Draw the noise alone for copies of every image: [copy, batch, channel, height, width]."""
        blank = torch.zeros_like(images)
        return self.perturb(blank, blank.new_empty((copies, *images.shape)), rng)

    @property
    def stream(self) -> str | None:
        """The name of the streams that copies are drawn from; None for a noise that has only `perturb`."""
        return None if type(self).draw is Noise.draw else PHILOX

    @property
    def joins(self) -> bool:
        """Whether `draw` also takes an image for every copy, and rows of several streams: that of radii does."""
        return type(self).draw.__module__.startswith("radii.")

    def check(self, image: Tensor) -> None:
        """Raise a ParameterError for an image that this noise cannot be added to; by default none is refused."""

    @abstractmethod
    def radius(self, probability: Probability, runner_up: Probability | None = None) -> Probability:
        """Return the radius that a top class of at least this probability proves; below zero it proves nothing.

        `runner_up` bounds the probability of every other class from above; by default it is 1 - probability.
        """

    @abstractmethod
    def probability_for(self, radius: float) -> float:
        """Return the probability that the top class needs for this radius."""

    def probability_after(self, probability: Any, radius: float) -> Any:
        """Return the least probability after a change of this length of an event that has this probability before it.

        The change must not depend on the noise. Noises without such a bound refuse: one noisy pass proves nothing.
        """
        raise ParameterError(
            f"the noise {self.name!r} has no bound for one noisy pass: use the noise gaussian or grid", "noise"
        )

    def nearest(self, images: Tensor) -> Tensor:
        """Return the nearest images that this noise can be added to: by default, the images."""
        return images

    def describe(self) -> dict[str, Any]:
        """Return the name and all parameters, as a header records them."""
        return {"name": self.name, **{f.name: getattr(self, f.name) for f in fields(self)}}

    def stated_norm(self) -> dict[str, str]:
        """Return the norm as a header records it; the first noises were all of l2, and their headers state none."""
        return {} if self.name in L2_NOISES else {"norm": self.norm.name}

    def __str__(self) -> str:
        return ", ".join([self.name, *(f"{f.name} {getattr(self, f.name)}" for f in fields(self))])

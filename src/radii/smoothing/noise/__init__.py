"""Noise distributions, one file each: how an image is perturbed, and the radius that votes under the noise certify."""

from typing import Any

from radii import plugins
from radii.smoothing.noise.base import Noise
from radii.smoothing.noise.gaussian import Gaussian, noise_like, noisy_copies

__all__ = ["Gaussian", "Noise", "create", "names", "noise_like", "noisy_copies"]

FOLDER = "smoothing/noise"


def names() -> list[str]:
    return plugins.names(FOLDER)


def create(name: str, **fields: Any) -> Noise:
    """Make a noise by name; `fields` are its parameters."""
    return plugins.create(FOLDER, Noise, name, fields)

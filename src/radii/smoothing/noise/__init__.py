"""Noise distributions, one file each: how an image is perturbed, and the radius that votes under the noise certify."""

from typing import Any

from radii import plugins
from radii.fields import settings_of
from radii.smoothing.noise.base import Noise
from radii.smoothing.noise.gaussian import Gaussian, noise_like, noisy_copies

__all__ = ["Gaussian", "Noise", "create", "fields", "names", "noise_like", "noisy_copies"]

FOLDER = "smoothing/noise"


def names() -> list[str]:
    return plugins.names(FOLDER)


def fields(name: str) -> list[str]:
    """Return the names of a noise's fields."""
    return [setting.name for setting in settings_of(plugins.find(FOLDER, name, Noise))]


def create(name: str, **fields: Any) -> Noise:
    """Make a noise by name; `fields` are its parameters."""
    return plugins.create(FOLDER, Noise, name, fields)

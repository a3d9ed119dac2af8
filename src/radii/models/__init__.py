"""Architectures: one file per family, one public function per model."""

from radii.models.base import (
    architectures,
    create,
    inner_models,
    names,
    own_normalisation,
    resolved,
    settings,
    without_pretrained,
)

__all__ = [
    "architectures",
    "create",
    "inner_models",
    "names",
    "own_normalisation",
    "resolved",
    "settings",
    "without_pretrained",
]

"""Architectures: one file per family, one public function per model."""

from radii.models.base import (
    architectures,
    create,
    names,
    own_normalisation,
    parts,
    resolved,
    settings,
    without_pretrained,
)

__all__ = [
    "architectures",
    "create",
    "names",
    "own_normalisation",
    "parts",
    "resolved",
    "settings",
    "without_pretrained",
]

"""Architectures: one file per family, one public function per model."""

from radii.models.base import create, names, resolved

__all__ = ["create", "names", "resolved"]

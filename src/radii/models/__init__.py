"""Architectures: one family a file, every public function of a file a model."""

from radii.models.base import create, names, parts, resolved

__all__ = ["create", "names", "parts", "resolved"]

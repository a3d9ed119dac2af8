"""Architectures: one file per family, one public function per model."""

from radii.models.base import architectures, create, names, parts, resolved, settings

__all__ = ["architectures", "create", "names", "parts", "resolved", "settings"]

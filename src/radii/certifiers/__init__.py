"""Certification procedures, one file each; the file's name is the procedure's."""

from typing import Any

from radii import plugins
from radii.certifiers.base import Certifier
from radii.fields import build

__all__ = ["Certifier", "create", "names"]


def names() -> list[str]:
    return plugins.names("certifiers")


def create(name: str, **fields: Any) -> Certifier:
    """Make a procedure by name; `fields` are its parameters."""
    made: Certifier = build(plugins.find("certifiers", name, Certifier), fields, f"certifier {name!r}")
    return made

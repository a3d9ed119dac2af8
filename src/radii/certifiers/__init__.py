"""Certifiers, one file each; the file's name is the certifier's."""

from typing import Any

from radii import plugins
from radii.certifiers.base import Certifier, certify_image

__all__ = ["Certifier", "certify_image", "create", "names"]


def names() -> list[str]:
    return plugins.names("certifiers")


def create(name: str, **fields: Any) -> Certifier:
    """Make a certifier by name; `fields` are its parameters."""
    if name in plugins.names("certifiers/population"):
        raise ValueError(
            f"the certifier {name!r} proves a number about a population, nothing about one image: use "
            "radii.certify_population, or `radii certify` for the test images of a run"
        )
    return plugins.create("certifiers", Certifier, name, fields)

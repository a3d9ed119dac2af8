"""Certifiers of a population, one file each: they prove a number about pictures like these, nothing about one."""

from typing import Any

from radii import plugins
from radii.certifiers.population.one_pass import OnePass

__all__ = ["OnePass", "create", "names"]

FOLDER = "certifiers/population"


def names() -> list[str]:
    return plugins.names(FOLDER)


def create(name: str, **fields: Any) -> OnePass:
    """Make a certifier of a population by name; `fields` are its parameters."""
    return plugins.create(FOLDER, OnePass, name, fields)

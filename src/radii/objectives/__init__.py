"""Training methods, one file each; the file's name is the method's."""

from typing import Any

from radii import plugins
from radii.fields import build
from radii.objectives.base import Batch, Objective, Step, Terms

__all__ = ["Batch", "Objective", "Step", "Terms", "create", "names"]


def names() -> list[str]:
    return plugins.names("objectives")


def create(name: str, **fields: Any) -> Objective:
    """Make an objective by name; `fields` are its hyper-parameters and resources."""
    kind = plugins.find("objectives", name, Objective)
    handed = {key: fields.pop(key) for key in kind.resources() if key in fields}
    made: Objective = build(kind, fields, f"objective {name!r}", **handed)
    return made

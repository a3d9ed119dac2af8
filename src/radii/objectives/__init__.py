"""Training methods, one file each; the file's name is the method's."""

from typing import Any

from radii import plugins
from radii.objectives.base import Batch, Objective, Step, Terms

__all__ = ["Batch", "Objective", "Step", "Terms", "create", "names", "resources_of"]


def names() -> list[str]:
    return plugins.names("objectives")


def create(name: str, **fields: Any) -> Objective:
    """Make an objective by name; `fields` are its hyper-parameters and resources."""
    resources = {key: fields.pop(key) for key in resources_of(name) if key in fields}
    return plugins.create("objectives", Objective, name, fields, **resources)


def resources_of(name: str) -> list[str]:
    """Return the fields of an objective that are passed as objects, such as a teacher."""
    factory = plugins.find("objectives", name, Objective)
    return factory.resources() if isinstance(factory, type) and issubclass(factory, Objective) else []

"""Models by name, with their normalisation as the first layer."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Annotated, Any

from torch import nn

from radii import plugins
from radii.fields import did_you_mean, from_mapping, settings_of, stated
from radii.smoothing.normalisation import CIFAR10, IMAGENET, NONE, Normalisation, layer

Shape = tuple[int, int, int]
"""Channels, height, width of an image."""

Factory = Callable[..., nn.Module]

Count = Annotated[int, {"ge": 1}]
"""The type of a model's field that counts channels, layers or heads."""

USUAL = {(3, 32, 32): CIFAR10, (3, 224, 224): IMAGENET}
"""The normalisation of the dataset that models of this input shape are usually trained on."""


def names() -> list[str]:
    return sorted(plugins.functions("models"))


def architectures() -> list[str]:
    """The models that are made for any shape and number of classes, and need nothing else to be stated."""
    return [name for name in names() if "shape" in _given(factory := find(name)) and not _required(factory)]


def _required(factory: Factory) -> list[str]:
    """The fields of a factory that have to be stated."""
    return [s.name for s in settings_of(factory, _given(factory)) if s.default is MISSING]


def create(
    name: str,
    *,
    shape: Shape | None = None,
    classes: int | None = None,
    normalisation: Normalisation | None = None,
    **fields: Any,
) -> nn.Sequential:
    """Make a model by name: for its usual dataset, or for images of `shape` in `classes` classes.

    `fields` are the parameters of its factory. `module:name` names a user-defined class or function; it is called with
    its fields, and with shape and classes if it has such parameters, and returns any `nn.Module`.
    """
    factory = find(name)
    usual = _usual(factory)
    shape = usual["shape"] if shape is None else shape
    classes = usual["classes"] if classes is None else classes
    if normalisation is None:
        normalisation = USUAL.get(shape, NONE) if shape else NONE
    _check(shape, classes, normalisation)
    given = {key: value for key, value in (("shape", shape), ("classes", classes)) if key in _given(factory)}
    model = from_mapping(factory, fields, f"model {name!r}", **given)
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model {name!r} made a {type(model).__name__}, expected a torch.nn.Module")
    return nn.Sequential(layer(normalisation), model)


def find(name: str) -> Factory:
    """The function of a model of the package, or the class or function that `module:name` names."""
    if ":" in name:
        return plugins.import_object(name, "model")
    known = plugins.functions("models")
    if name not in known:
        raise LookupError(f"there is no model {name!r}{did_you_mean(name, known)}; your own is named module:name")
    found: Factory = getattr(importlib.import_module(known[name][0]), name)
    return found


def resolved(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a model with the defaults of those that are not stated."""
    factory = find(name)
    return stated(factory, fields, _given(factory))


def _given(factory: Factory) -> list[str]:
    """Which of shape and classes a factory has as parameters."""
    parameters = inspect.signature(factory).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return [key for key in ("shape", "classes") if key in parameters or open_ended]


def _usual(factory: Factory) -> dict[str, Any]:
    """The default shape and classes of a factory; None where it has no default."""
    defaults = {key: p.default for key, p in inspect.signature(factory).parameters.items() if p.default is not p.empty}
    return {"shape": defaults.get("shape"), "classes": defaults.get("classes")}


def _check(shape: Shape | None, classes: int | None, normalisation: Normalisation) -> None:
    if shape is not None and (len(shape) != 3 or min(shape) < 1):
        raise ValueError(f"shape = {shape}, expected channels, height and width, each at least 1")
    if classes is not None and classes < 2:
        raise ValueError(f"classes = {classes}, expected at least 2")
    if shape is not None and len(normalisation.mean) not in (0, shape[0]):
        raise ValueError(
            f"the normalisation is of {len(normalisation.mean)} channels, expected {shape[0]}, as the images have"
        )

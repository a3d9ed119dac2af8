"""How a model is made by name, with its normalisation as the first layer."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from radii import plugins
from radii.fields import meant
from radii.smoothing.normalisation import CIFAR10, IMAGENET, NONE, Normalisation, layer

Shape = tuple[int, int, int]
"""Channels, height, width of an image."""

Factory = Callable[..., nn.Module]

USUAL = {(3, 32, 32): CIFAR10, (3, 224, 224): IMAGENET}
"""The normalisation of the dataset that a model of this input is usually trained on."""


def names() -> list[str]:
    return sorted(plugins.functions("models"))


def create(
    name: str,
    *,
    shape: Shape | None = None,
    classes: int | None = None,
    normalisation: Normalisation | None = None,
) -> nn.Sequential:
    """Make a model by name: for its usual dataset, or for images of `shape` in `classes` classes.

    `module:factory` names a function of one's own, called with the same keywords, that returns any `nn.Module`.
    """
    factory = _own(name) if ":" in name else _built_in(name)
    usual = _usual(factory, name)
    shape = usual["shape"] if shape is None else shape
    classes = usual["classes"] if classes is None else classes
    if normalisation is None:
        normalisation = USUAL.get(shape, NONE) if shape else NONE
    _check(shape, classes, normalisation)
    model = factory(shape=shape, classes=classes)
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model {name!r} made a {type(model).__name__}, expected a torch.nn.Module")
    return nn.Sequential(layer(normalisation), model)


def _usual(factory: Factory, name: str) -> dict[str, Any]:
    """What a factory takes where nothing is stated; None where it has no default of its own."""
    signature = inspect.signature(factory)
    try:
        signature.bind(shape=None, classes=None)
    except TypeError as error:
        raise ValueError(
            f"the model {name!r} cannot be made with the keywords shape and classes alone: {error}"
        ) from error
    defaults = {key: p.default for key, p in signature.parameters.items() if p.default is not p.empty}
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


def _built_in(name: str) -> Factory:
    known = plugins.functions("models")
    if name not in known:
        raise LookupError(
            f"there is no model {name!r}{meant(name, known)}; a model of your own is named module:factory"
        )
    found: Factory = getattr(importlib.import_module(known[name][0]), name)
    return found


def _own(name: str) -> Factory:
    module_name, _, function = name.partition(":")
    # The current folder, where one's own module usually lies, is not on the path of an installed command.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Factory = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise LookupError(
            f"cannot find the model {name!r}: {error}; expected module:factory, with the module importable from here"
        ) from error
    if not callable(found):
        raise LookupError(f"the model {name!r} is a {type(found).__name__}, expected a function that makes one")
    return found

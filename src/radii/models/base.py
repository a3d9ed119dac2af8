"""How a model is made by name, with its normalisation as the first layer."""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

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
    usual = {key: p.default for key, p in inspect.signature(factory).parameters.items()}
    shape = usual.get("shape") if shape is None else shape
    classes = usual.get("classes") if classes is None else classes
    if normalisation is None:
        normalisation = USUAL.get(shape, NONE) if shape else NONE
    return nn.Sequential(layer(normalisation), factory(shape=shape, classes=classes))


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
    except (ImportError, AttributeError) as error:
        raise LookupError(
            f"cannot find the model {name!r}: {error}; expected module:factory, with the module importable from here"
        ) from error
    return found

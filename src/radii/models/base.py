"""Models by name, with their normalisation as the first layer."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Annotated, Any

from torch import nn

from radii import plugins
from radii.fields import Setting, did_you_mean, from_mapping, settings_of, stated
from radii.smoothing.normalisation import CIFAR10, IMAGENET, NONE, Normalisation, layer

Shape = tuple[int, int, int]
"""Channels, height, width of an image."""

Factory = Callable[..., nn.Module]

Count = Annotated[int, {"ge": 1}]
"""The type of a model's field that counts channels, layers or heads."""

DENOISERS = "models/denoisers"

ModelPart = Annotated[Any, {"part": "models"}]
"""The kind of a factory's parameter that is itself a model: a name, or a table of a name and fields."""

DenoiserPart = Annotated[Any, {"part": DENOISERS}]
"""The same for a denoiser."""

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
    its fields, and with shape and classes if it has such parameters, and returns any `nn.Module`. A factory with a
    parameter `normalisation` applies it itself; in front of any other model it is the first layer.
    """
    factory = find(name)
    usual = _usual(factory)
    shape = usual["shape"] if shape is None else shape
    classes = usual["classes"] if classes is None else classes
    if normalisation is None:
        normalisation = USUAL.get(shape, NONE) if shape else NONE
    _check(shape, classes, normalisation)
    model = _made(factory, fields, f"model {name!r}", shape=shape, classes=classes, normalisation=normalisation)
    first = nn.Identity() if "normalisation" in _given(factory) else layer(normalisation)
    return nn.Sequential(first, model)


def create_part(spec: Any, **given: Any) -> nn.Sequential:
    """Make the model that a parameter of another model's factory states."""
    table = part_table(spec)
    return create(table.pop("name"), **given, **table)


def create_denoiser(spec: Any, shape: Shape) -> nn.Module:
    """Make the denoiser that a parameter of a model's factory states."""
    table = part_table(spec)
    name = table.pop("name")
    return _made(find(name, DENOISERS), table, f"denoiser {name!r}", shape=shape)


def part_table(spec: Any) -> dict[str, Any]:
    """The table of a part from its short form, "lenet" for { name = "lenet" }.

    Code has to be named in a table, where the check of what a run may use finds it.
    """
    table = {"name": spec} if isinstance(spec, str) and ":" not in spec else spec
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"a part of a model is {spec!r}, expected a name, or a table such as {{ name = 'NAME' }}")
    return dict(table)


def find(name: str, folder: str = "models") -> Factory:
    """The function of a model, or denoiser, of the package, or the class or function that `module:name` names."""
    what = folder.rpartition("/")[2].removesuffix("s")
    if ":" in name:
        return plugins.import_object(name, what)
    known = plugins.functions(folder)
    if name not in known:
        raise LookupError(f"there is no {what} {name!r}{did_you_mean(name, known)}; your own is named module:name")
    found: Factory = getattr(importlib.import_module(known[name][0]), name)
    return found


def resolved(name: str, fields: Mapping[str, Any], folder: str = "models") -> dict[str, Any]:
    """The fields of a model with the defaults of those that are not stated, of its parts too."""
    factory = find(name, folder)
    found = stated(factory, fields, _given(factory))
    for key, shelf in _parts(factory).items():
        table = part_table(found[key])
        part = table.pop("name")
        found[key] = {"name": part, **resolved(part, table, shelf)}
    return found


def settings(name: str, folder: str = "models") -> list[Setting]:
    """The fields that a recipe may state of a model, or denoiser."""
    factory = find(name, folder)
    return settings_of(factory, _given(factory))


def parts(name: str) -> list[str]:
    """The parameters of a model that are models themselves."""
    return [key for key, shelf in _parts(find(name)).items() if shelf == "models"]


def _parts(factory: Factory) -> dict[str, str]:
    """The parameters of a factory that are made by name, each with the folder that the name is looked up in."""
    found = settings_of(factory, _given(factory))
    return {setting.name: setting.limits["part"] for setting in found if "part" in setting.limits}


def _made(factory: Factory, fields: Mapping[str, Any], what: str, **offered: Any) -> nn.Module:
    """The module of a factory, from its fields and as much of what is offered as it asks for."""
    asked = _given(factory)
    made = from_mapping(factory, fields, what, **{key: value for key, value in offered.items() if key in asked})
    if not isinstance(made, nn.Module):
        raise ValueError(f"the {what} made a {type(made).__name__}, expected a torch.nn.Module")
    return made


def _given(factory: Factory) -> list[str]:
    """Which of shape, classes and normalisation a factory has as parameters."""
    parameters = inspect.signature(factory).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = ("shape", "classes") if open_ended else ()
    return [key for key in ("shape", "classes", "normalisation") if key in parameters or key in known]


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

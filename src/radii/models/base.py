"""Make models by name, with their normalisation as the first layer."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Annotated, Any

from torch import nn

from radii import plugins
from radii.errors import ParameterError
from radii.fields import Setting, did_you_mean, from_mapping, settings_of, stated
from radii.models import _libraries
from radii.smoothing.normalisation import CIFAR10, IMAGENET, NONE, Normalisation, layer

Shape = tuple[int, int, int]
"""Channels, height, width of an image."""

Factory = Callable[..., nn.Module]

Count = Annotated[int, {"ge": 1}]
"""The type of a model's field that counts channels, layers or heads."""

DENOISERS = "models/denoisers"
PRETRAINED = "pretrained"
"""The field of a library's model that starts with the library's weights."""

InnerModel = Annotated[Any, {"part": "models"}]
"""The type of a factory's parameter that is itself a model: a name, or a table of a name and fields."""

InnerModels = Annotated[tuple[Any, ...], {"part": "models"}]
"""The type of a factory's parameter that is a list of models."""

InnerDenoiser = Annotated[Any, {"part": DENOISERS}]
"""The type of a factory's parameter that is a denoiser."""

USUAL_NORMALISATION = {(3, 32, 32): CIFAR10, (3, 224, 224): IMAGENET}
"""The normalisation of the dataset that models of this input shape are usually trained on."""


def names() -> list[str]:
    return sorted(plugins.functions("models"))


def architectures() -> list[str]:
    """Return the models that can be made for any shape and number of classes without other fields."""
    return [
        name
        for name in names()
        if "shape" in _inputs(find(name)) and all(setting.default is not MISSING for setting in settings(name))
    ]


def create(
    name: str,
    *,
    shape: Shape | None = None,
    classes: int | None = None,
    normalisation: Normalisation | None = None,
    **fields: Any,
) -> nn.Sequential:
    """Make a model by name: for its usual dataset, or for images of `shape` in `classes` classes.

    `fields` are the parameters of its factory. `module:name` names a user-defined class or function: it is called with
    its fields, and with shape and classes (or num_classes) if it has such parameters, and returns any `nn.Module`.
    `timm:NAME`, `torchvision:NAME` and `hf:OWNER/NAME` name models of these libraries. The first layer normalises,
    unless the factory has a parameter `normalisation` and does so itself.
    """
    factory = find(name)
    parameters = inspect.signature(factory).parameters
    shape = _default(parameters, "shape") if shape is None else shape
    classes = _default(parameters, "classes") if classes is None else classes
    if normalisation is None:
        normalisation = USUAL_NORMALISATION.get(shape, NONE) if shape else NONE
    _check(shape, classes, normalisation)
    model = _call(factory, fields, f"model {name!r}", shape=shape, classes=classes, normalisation=normalisation)
    first = nn.Identity() if "normalisation" in _inputs(factory) else layer(normalisation)
    return nn.Sequential(first, model)


def create_inner(spec: Any, **inputs: Any) -> nn.Sequential:
    """Make the inner model that a recipe states for a parameter of another model."""
    table = inner_table(spec)
    return create(table.pop("name"), **inputs, **table)


def create_denoiser(spec: Any, shape: Shape) -> nn.Module:
    """Make the denoiser that a recipe states for a parameter of a model."""
    table = inner_table(spec)
    name = table.pop("name")
    return _call(find(name, DENOISERS), table, f"denoiser {name!r}", shape=shape)


def inner_table(spec: Any) -> dict[str, Any]:
    """Return the table of an inner model; its short form "lenet" becomes { name = "lenet" }.

    A `module:name` must be in a table: the check of what a run may import looks there.
    """
    table = {"name": spec} if isinstance(spec, str) and ":" not in spec else spec
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"a part of a model is {spec!r}, expected a name, or a table such as {{ name = 'NAME' }}")
    return dict(table)


def find(name: str, folder: str = "models") -> Factory:
    """Return the factory of a model or denoiser in the package, or the class or function that `module:name` names."""
    what = folder.rpartition("/")[2].removesuffix("s")
    if plugins.library_of(name) and folder == "models":
        return _libraries.factory(name)
    if ":" in name:
        made = plugins.import_object(name, what)
        if isinstance(made, nn.Module):
            raise LookupError(
                f"{name} is a {type(made).__name__} that is made already, expected a class or a function. "
                "Name a function that returns it."
            )
        return made
    known = plugins.functions(folder)
    if name not in known:
        raise LookupError(f"there is no {what} {name!r} (your own is named module:name){did_you_mean(name, known)}")
    factory: Factory = getattr(importlib.import_module(known[name][0]), name)
    return factory


def resolved(name: str, fields: Mapping[str, Any], folder: str = "models") -> dict[str, Any]:
    """Return the fields of a model and of its inner models, with defaults for those that are not stated."""
    factory = find(name, folder)
    complete = stated(factory, fields, [key for key in _inputs(factory) if key not in fields])
    if plugins.library_of(name):
        complete |= _libraries.resolved(name, {key: complete[key] for key in complete if key != PRETRAINED})
    for key, inner_folder in _inner_folders(factory).items():
        inner = complete[key]
        if isinstance(inner, list | tuple):
            complete[key] = tuple(_resolved_inner(member, inner_folder) for member in inner)
        else:
            complete[key] = _resolved_inner(inner, inner_folder)
    return complete


def _resolved_inner(spec: Any, folder: str) -> dict[str, Any]:
    table = inner_table(spec)
    name = table.pop("name")
    return {"name": name, **resolved(name, table, folder)}


def own_normalisation(name: str, fields: Mapping[str, Any]) -> Normalisation:
    """Return the constants that a library states for its model; none for other models."""
    return _libraries.normalisation(name, fields) if plugins.library_of(name) else NONE


def without_pretrained(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a model whose weights are loaded next, so that a library fetches nothing."""
    if not (library := plugins.library_of(name)):
        return dict(fields)
    if library == "hf" and "config" not in fields:
        raise ParameterError(
            f"The recipe states no config of {name!r}, and opening a run fetches nothing. Import the model again.",
            "model",
        )
    return {**fields, PRETRAINED: False}


def settings(name: str, folder: str = "models") -> list[Setting]:
    """Return the fields of a model or denoiser that a recipe may state."""
    factory = find(name, folder)
    return settings_of(factory, _inputs(factory))


def inner_models(name: str) -> list[str]:
    """Return the parameters of a model that are models themselves."""
    return [key for key, folder in _inner_folders(find(name)).items() if folder == "models"]


def _inner_folders(factory: Factory) -> dict[str, str]:
    """Return the parameters of a factory that are inner models, each with the folder to look its name up in."""
    fields = settings_of(factory, _inputs(factory))
    return {field.name: field.limits["part"] for field in fields if "part" in field.limits}


def _call(factory: Factory, fields: Mapping[str, Any], what: str, **inputs: Any) -> nn.Module:
    """Call a factory with its fields, and with those of the inputs that it has parameters for."""
    known = {**inputs, "num_classes": inputs.get("classes")}
    passed = {key: known[key] for key in _inputs(factory) if key in known and key not in fields}
    module = from_mapping(factory, fields, what, **passed)
    if not isinstance(module, nn.Module):
        raise ValueError(f"the {what} made a {type(module).__name__}, expected a torch.nn.Module")
    return module


def _inputs(factory: Factory) -> list[str]:
    """Return which of shape, classes (or num_classes) and normalisation a factory names as parameters."""
    parameters = inspect.signature(factory).parameters
    classes = "num_classes" if "num_classes" in parameters and "classes" not in parameters else "classes"
    return [key for key in ("shape", classes, "normalisation") if key in parameters]


def _default(parameters: Mapping[str, inspect.Parameter], name: str) -> Any:
    """Return the default of a parameter; None if there is no such parameter, or no default."""
    if name not in parameters or parameters[name].default is inspect.Parameter.empty:
        return None
    return parameters[name].default


def _check(shape: Shape | None, classes: int | None, normalisation: Normalisation) -> None:
    if shape is not None and (len(shape) != 3 or min(shape) < 1):
        raise ValueError(f"shape = {shape}, expected channels, height and width, each at least 1")
    if classes is not None and classes < 2:
        raise ValueError(f"classes = {classes}, expected at least 2")
    if shape is not None and len(normalisation.mean) not in (0, shape[0]):
        raise ValueError(
            f"the normalisation is of {len(normalisation.mean)} channels, expected {shape[0]}, as in the images"
        )

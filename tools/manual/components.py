"""The reference of recipes and components: every key with its default, the values it takes and its meaning."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, is_dataclass
from itertools import pairwise
from types import NoneType
from typing import Any, get_args, get_origin

from radii import plugins
from radii.certifiers import Certifier
from radii.datasets import Dataset
from radii.engines import Engine
from radii.fields import Setting, settings_of
from radii.models import base as model_factories
from radii.objectives import Objective
from radii.runs import recipe as shipped
from radii.runs.recipe import Recipe, Training
from radii.smoothing.noise import Noise
from tools.manual.meanings import MEANINGS

SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
GIVEN = ("shape", "classes", "normalisation")
"""Arguments of a model's factory that come from the dataset."""
SHELVES: list[tuple[str, type]] = [
    ("objectives", Objective),
    ("certifiers", Certifier),
    ("certifiers/population", Certifier),
    ("datasets", Dataset),
    ("smoothing/noise", Noise),
    ("engines", Engine),
]
KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def recipe() -> str:
    return field_table(Recipe)


def training() -> str:
    return field_table(Training)


def objectives() -> str:
    return _shelf("objectives", Objective, without=("sigma",))


def certifier_shelf() -> str:
    return _shelf("certifiers", Certifier)


def population_shelf() -> str:
    return _shelf("certifiers/population", Certifier)


def datasets() -> str:
    return _shelf("datasets", Dataset, without=("path",))


def noises() -> str:
    return _shelf("smoothing/noise", Noise)


def engine_shelf() -> str:
    return _shelf("engines", Engine)


def models() -> str:
    return _factories("models")


def denoisers() -> str:
    return _factories("models/denoisers")


def recipes() -> str:
    """Return the shipped recipes by dataset."""
    names = shipped.shipped()
    shelves = sorted({name.partition("/")[0] for name in names})
    lines = [f"| {shelf} | {_listed(name for name in names if name.startswith(f'{shelf}/'))} |" for shelf in shelves]
    return "\n".join(["| dataset | recipes |", "| --- | --- |", *lines])


def _listed(names: Iterator[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _shelf(folder: str, base: type, without: tuple[str, ...] = ()) -> str:
    """Return every entry of a folder of classes: its name, its sentence, its fields."""
    entries = []
    for name, sentence in plugins.describe(folder).items():
        kind: Callable[..., Any] = plugins.find(folder, name, base)
        entries.append("\n\n".join(filter(None, [f"### `{name}`", sentence, field_table(kind, without)])))
    return "\n\n".join(entries)


def _factories(folder: str) -> str:
    """Return every public function of a folder; those without fields of their own share one table."""
    found = {name: sentence for name, (_, sentence) in plugins.functions(folder).items()}
    lines = ["| name | what | fields |", "| --- | --- | --- |"]
    for name, sentence in sorted(found.items()):
        settings = settings_of(model_factories.find(name, folder), GIVEN)
        lines.append(f"| `{name}` | {_cell(sentence)} | {'<br>'.join(map(_in_short, settings))} |")
    return "\n".join(lines)


def _in_short(setting: Setting) -> str:
    return (
        f"`{setting.name}` = {_default(setting)}" if setting.default is not MISSING else f"`{setting.name}`, required"
    )


def field_table(kind: Callable[..., Any], without: tuple[str, ...] = ()) -> str:
    """Return a table of the fields that a recipe or caller may state; empty where there are none."""
    settings = [setting for setting in settings_of(kind) if setting.name not in without]
    if not settings:
        return ""
    said = meanings(kind)
    rows = [f"| `{s.name}` | {_default(s)} | {values(s)} | {_cell(said[s.name])} |" for s in settings]
    return "\n".join(["| key | default | values | meaning |", "| --- | --- | --- | --- |", *rows])


def meanings(kind: Callable[..., Any]) -> dict[str, str]:
    """Return the meaning of every field: the text below it in the source, else that of its name, else nothing."""
    found = dict(MEANINGS)
    if inspect.isclass(kind) and is_dataclass(kind):
        for owner in reversed(kind.__mro__):
            found |= _texts(owner) if is_dataclass(owner) else {}
    return {setting.name: found.get(setting.name, "") for setting in settings_of(kind)}


def _texts(owner: type) -> dict[str, str]:
    """Return the literal strings below the fields of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: " ".join(inspect.cleandoc(text.value.value).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def values(setting: Setting) -> str:
    """Return the kind and range of a field, such as: whole number ≥ 1."""
    if choices := setting.limits.get("choices"):
        return ", ".join(f"`{choice}`" for choice in choices)
    limits = [
        f"{sign}\N{NO-BREAK SPACE}{limit:g}"
        for key, sign in SIGNS.items()
        if (limit := setting.limits.get(key)) is not None
    ]
    return f"{_kind(setting.hint)} {', '.join(limits)}".strip()


def _kind(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"list of {_kind(get_args(hint)[0])}s"
    options = [each for each in get_args(hint) if each is not NoneType] or [hint]
    return " or ".join(KINDS.get(each, "table" if _nested(each) else "name or table") for each in options)


def _nested(hint: Any) -> bool:
    return is_dataclass(hint) or get_origin(hint) is Mapping


def _default(setting: Setting) -> str:
    if setting.default is MISSING:
        return "required"
    if setting.default is None:
        return "none"
    if isinstance(setting.default, bool):
        return f"`{str(setting.default).lower()}`"
    if isinstance(setting.default, tuple):
        return f"`[{', '.join(map(str, setting.default))}]`"
    return f"`{setting.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

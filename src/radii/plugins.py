"""Registries, one folder each: a file is an entry under its own name, and adding one changes nothing else.

A user-defined entry is named `module:name` in every registry.
"""

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from radii.fields import check, did_you_mean, from_mapping

ROOT = Path(__file__).parent
Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class Component:
    """An entry of a registry: a frozen dataclass whose fields are its parameters, checked when it is made."""

    registry: ClassVar[str]
    """What it is, in an error sentence."""

    def __post_init__(self) -> None:
        check(self, f"{self.registry} {self.name!r}")

    @property
    def name(self) -> str:
        """The name under which a recipe finds it."""
        return name_of(type(self))


def names(folder: str) -> list[str]:
    """The entries of a folder of classes, read from its file names: nothing is imported."""
    return [path.stem for path in _files(folder)]


def find(folder: str, name: str, base: type[Kind]) -> Callable[..., Kind]:
    """The class that `folder/name.py` defines, or the class or factory that `module:name` names."""
    if ":" in name:
        return cast("Callable[..., Kind]", import_object(name, _singular(folder)))
    known = names(folder)
    if name not in known:
        raise LookupError(f"there is no {_singular(folder)} {name!r}{did_you_mean(name, known)}")
    module = importlib.import_module(f"radii.{folder.replace('/', '.')}.{name}")
    (found,) = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, base) and member.__module__ == module.__name__ and not inspect.isabstract(member)
    ]
    return found


def create(folder: str, base: type[Kind], name: str, fields: Mapping[str, Any], **given: Any) -> Kind:
    """Make an entry of a registry from its fields and from objects that are `given`."""
    what = f"{_singular(folder)} {name!r}"
    made = from_mapping(find(folder, name, base), fields, what, **given)
    if not isinstance(made, base):
        raise ValueError(f"the {what} made a {type(made).__name__}, expected a {base.__module__}.{base.__name__}")
    return made


def import_object(name: str, what: str) -> Callable[..., Any]:
    """The class or function that `module:name` names; the current folder is searched first, as `python -m` does."""
    module, _, attribute = name.partition(":")
    if module.startswith("."):
        raise LookupError(f"cannot find the {what} {name!r}: expected module:name, with the module's full name")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with _from_source():
            found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise LookupError(
            f"cannot find the {what} {name!r}: {error}; expected module:name, with the module importable from here"
        ) from error
    if not callable(found):
        raise LookupError(f"the {what} {name!r} is a {type(found).__name__}, expected a class or a function")
    return cast("Callable[..., Any]", found)


@contextmanager
def _from_source() -> Iterator[None]:
    """Import modules from their source: bytecode beside it may be of other code, which nobody has read or trusted."""
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = os.devnull, True
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


def name_of(kind: type) -> str:
    """The name under which a recipe finds a class: its file's, or module:name for a user-defined class."""
    module = kind.__module__
    return module.rpartition(".")[2] if module.startswith("radii.") else f"{module}:{kind.__qualname__}"


def describe(folder: str) -> dict[str, str]:
    """Each entry of a folder of classes with the first sentence of its file."""
    return {path.stem: _first_line(ast.parse(path.read_text())) for path in _files(folder)}


def functions(folder: str) -> dict[str, tuple[str, str]]:
    """For a folder whose public functions are the entries: each name with its (module, first sentence)."""
    found = {}
    for path in _files(folder):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name] = (f"radii.{folder.replace('/', '.')}.{path.stem}", _first_line(node))
    return found


def defaults(folder: str, name: str) -> dict[str, Any]:
    """The literal defaults of an entry's fields, read from its source; none of a user-defined entry."""
    for path in _files(folder):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and path.stem == name:
                return _class_defaults(node)
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return _parameter_defaults(node.args)
    return {}


def _class_defaults(node: ast.ClassDef) -> dict[str, Any]:
    """Of `name: kind = value` and of `name: kind = option(value, ...)`."""
    stated = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    values = {cast("ast.Name", each.target).id: each.value for each in stated}
    plain = {key: each.args[0] if isinstance(each, ast.Call) and each.args else each for key, each in values.items()}
    return {key: ast.literal_eval(each) for key, each in plain.items() if each is not None and _is_literal(each)}


def _parameter_defaults(arguments: ast.arguments) -> dict[str, Any]:
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = [
        *zip(positional, arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {each.arg: ast.literal_eval(value) for each, value in pairs if value is not None and _is_literal(value)}


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def _files(folder: str) -> Iterator[Path]:
    return (path for path in sorted((ROOT / folder).glob("*.py")) if path.stem != "base" and path.stem[0] != "_")


def _first_line(node: ast.Module | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").split("\n", 1)[0]


def _singular(folder: str) -> str:
    return folder.rpartition("/")[2].removesuffix("s")

"""Find and make the entries of registries. A folder is a registry, and every file in it is an entry with its name.

`module:name` names an entry of the user's own, in every registry.
"""

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from radii.fields import check, did_you_mean, from_mapping
from radii.sources import names_in

ROOT = Path(__file__).parent
LIBRARIES = ("hf", "timm", "torchvision")
"""Libraries whose models are named `library:model`; such a name is not code of the user."""
Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class Component:
    """An entry of a registry: a frozen dataclass whose fields are its parameters. Their values are checked."""

    registry: ClassVar[str]
    """The name of its registry in errors, in the singular."""

    def __post_init__(self) -> None:
        check(self, f"{self.registry} {self.name!r}")

    @property
    def name(self) -> str:
        """The entry's name in recipes."""
        return name_of(type(self))


def names(folder: str) -> list[str]:
    """Return the names of the entries in a folder of classes, without importing them."""
    return [path.stem for path in _files(folder)]


def find(folder: str, name: str, base: type[Kind]) -> Callable[..., Kind]:
    """Return the class that `folder/name.py` defines, or the class or factory that `module:name` names."""
    if ":" in name:
        return cast("Callable[..., Kind]", import_object(name, _singular(folder)))
    known = names(folder)
    if name not in known:
        raise LookupError(f"there is no {_singular(folder)} {name!r}{did_you_mean(name, known)}")
    module = importlib.import_module(f"radii.{folder.replace('/', '.')}.{name}")
    (entry,) = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, base) and member.__module__ == module.__name__ and not inspect.isabstract(member)
    ]
    return entry


def create(folder: str, base: type[Kind], name: str, fields: Mapping[str, Any], **given: Any) -> Kind:
    """Make an entry of a registry from its fields and from the objects in `given`."""
    what = f"{_singular(folder)} {name!r}"
    entry = from_mapping(find(folder, name, base), fields, what, **given)
    if not isinstance(entry, base):
        raise ValueError(f"the {what} made a {type(entry).__name__}, expected a {base.__module__}.{base.__name__}")
    return entry


class CurrentFolder(MetaPathFinder):
    """Finds modules in the current folder: those that named code needs, and no others.

    The folder may be a stranger's, with a file by the name of any library that is imported later.
    """

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        """The folder of each top-level module."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        folder = self.folders.get(fullname)
        return None if folder is None else PathFinder.find_spec(fullname, [folder])

    def allow(self, folders: Mapping[str, str]) -> None:
        """Find these modules from now on, before those of the search path."""
        self.folders.update(folders)
        if self.folders and self not in sys.meta_path:
            sys.meta_path.insert(0, self)


CURRENT_FOLDER = CurrentFolder()


def import_object(name: str, what: str) -> Callable[..., Any]:
    """Import the class or function that `module:name` names; the current folder is searched first."""
    module, _, attribute = name.partition(":")
    if module.startswith(".") or "/" in module or module.endswith(".py"):
        plain = ".".join(filter(None, (part.strip(".") for part in module.removesuffix(".py").split("/"))))
        raise LookupError(
            f"cannot find the {what} {name!r}: expected module:name, with the module's full name and without .py; "
            f"did you mean {plain}:{attribute}?"
        )
    here = Path.cwd()
    CURRENT_FOLDER.allow(dict.fromkeys(names_in(here, module), str(here)))
    try:
        with _from_source():
            imported = importlib.import_module(module)
    except (ImportError, AttributeError, ValueError) as error:
        raise LookupError(
            f"cannot find the {what} {name!r}: {error}; expected module:name, with the module importable from here"
        ) from error
    if not hasattr(imported, attribute):
        members = [key for key, value in vars(imported).items() if callable(value) and not key.startswith("_")]
        near = did_you_mean(attribute, members) if members else ", which defines no function"
        raise LookupError(f"cannot find the {what} {name!r}: there is no {attribute!r} in {module}{near}")
    member = getattr(imported, attribute)
    if not callable(member):
        raise LookupError(f"the {what} {name!r} is a {type(member).__name__}, expected a class or a function")
    return cast("Callable[..., Any]", member)


@contextmanager
def _from_source() -> Iterator[None]:
    """Import modules from their source: bytecode beside it may come from other code, which nobody trusted."""
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = os.devnull, True
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


def library_of(name: str) -> str:
    """Return the library in a name such as `timm:resnet18`; empty for other names, also for `module:name`."""
    library, colon, _ = name.partition(":")
    return library if colon and library in LIBRARIES else ""


def name_of(kind: type) -> str:
    """Return the name of a class in recipes: its file's name, or module:name for a user's class."""
    module = kind.__module__
    return module.rpartition(".")[2] if module.startswith("radii.") else f"{module}:{kind.__qualname__}"


def describe(folder: str) -> dict[str, str]:
    """Return the first sentence of each entry's file, by the entry's name."""
    return {path.stem: _first_line(_parse(path.read_text())) for path in _files(folder)}


def functions(folder: str) -> dict[str, tuple[str, str]]:
    """Return (module, first sentence) of every entry, for a folder whose entries are public functions."""
    entries = {}
    for path in _files(folder):
        for node in _parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                entries[node.name] = (f"radii.{folder.replace('/', '.')}.{path.stem}", _first_line(node))
    return entries


def defaults(folder: str, name: str) -> dict[str, Any]:
    """Return the defaults of an entry's fields that are literals, read from its source; none for a user's entry."""
    for path in _files(folder):
        for node in _parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and path.stem == name and node.decorator_list:  # a dataclass
                return _class_defaults(node)
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return _parameter_defaults(node.args)
    return {}


@cache
def _parse(text: str) -> ast.Module:
    """Parse a file of a registry, once: training and reports look names up many times."""
    return ast.parse(text)


def _class_defaults(node: ast.ClassDef) -> dict[str, Any]:
    """Return the defaults in `name: type = value` and in `name: type = option(value, ...)`."""
    defaults = {}
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            value = line.value.args[0] if isinstance(line.value, ast.Call) and line.value.args else line.value
            if value is not None and _is_literal(value):
                defaults[line.target.id] = ast.literal_eval(value)
    return defaults


def _parameter_defaults(arguments: ast.arguments) -> dict[str, Any]:
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = [
        *zip(positional, arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {name.arg: ast.literal_eval(value) for name, value in pairs if value is not None and _is_literal(value)}


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

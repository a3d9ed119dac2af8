"""A folder is a registry: a file in it is an entry under its own name, and adding one touches nothing else."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from radii.fields import meant

ROOT = Path(__file__).parent
Kind = TypeVar("Kind")


def names(folder: str) -> list[str]:
    """The entries of a folder of classes, read from its file names: nothing is imported."""
    return [path.stem for path in _files(folder)]


def find(folder: str, name: str, base: type[Kind]) -> type[Kind]:
    """The class that `folder/name.py` defines."""
    known = names(folder)
    if name not in known:
        raise LookupError(f"there is no {_singular(folder)} {name!r}{meant(name, known)}")
    module = importlib.import_module(f"radii.{folder}.{name}")
    (found,) = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, base) and member.__module__ == module.__name__ and not inspect.isabstract(member)
    ]
    return found


def describe(folder: str) -> dict[str, str]:
    """Each entry of a folder of classes with the first sentence of its file."""
    return {path.stem: _first_line(ast.parse(path.read_text())) for path in _files(folder)}


def functions(folder: str) -> dict[str, tuple[str, str]]:
    """For a folder of families, where every public function is an entry: its name to (module, first sentence)."""
    found = {}
    for path in _files(folder):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name] = (f"radii.{folder}.{path.stem}", _first_line(node))
    return found


def recipes_folder() -> Path:
    """Where the recipes lie: inside an installed package, or beside the source."""
    inside = ROOT / "recipes"
    return inside if inside.is_dir() else ROOT.parents[1] / "recipes"


def _files(folder: str) -> Iterator[Path]:
    return (path for path in sorted((ROOT / folder).glob("*.py")) if path.stem != "base" and path.stem[0] != "_")


def _first_line(node: ast.Module | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").split("\n", 1)[0]


def _singular(folder: str) -> str:
    return folder.removesuffix("s")

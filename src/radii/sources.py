"""The source files of a module and of what it imports. Nothing here imports code."""

import ast
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path


def names_in(folder: Path, module: str) -> set[str]:
    """Return the top-level modules in a folder that a module there needs, itself among them; none if it is elsewhere.

    The names of imports inside functions are among them, but not those that are computed.
    """
    top = module.partition(".")[0]
    if PathFinder.find_spec(top, [str(folder)]) is None:
        return set()
    files = [name for name, path in source_files(module).items() if path.is_relative_to(folder)]
    return {top, *(name.partition(".")[0] for name in files)}


def source_files(module: str) -> dict[str, Path]:
    """Return the files of a module, of its packages and of all user code that they import, by module."""
    sources: dict[str, Path] = {}
    modules = [module]
    while modules:
        for name, path in files_of(modules.pop()):
            if name not in sources:
                sources[name] = path
                if path.suffix == ".py" and not _is_installed(path):
                    modules += _imports(name, path)
    return sources


def files_of(module: str) -> Iterator[tuple[str, Path]]:
    """Find the files of a module and of its packages, outermost first, without importing them."""
    folders: Iterable[str] | None = [str(Path.cwd()), *sys.path]
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        try:
            spec = PathFinder.find_spec(name, list(folders)) if folders is not None else None
        except KeyError:  # a namespace package inside a package that is not imported
            return
        if spec is None:
            return
        if spec.origin and Path(spec.origin).is_file():
            yield name, Path(spec.origin)
        folders = spec.submodule_search_locations


def _imports(name: str, path: Path) -> Iterator[str]:
    """Yield the modules that a source file imports; `from a import b` may name the module a.b."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute_name(node, package)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names)) if base else ()


def absolute_name(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name of the module that a `from` statement in a package names."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def _is_installed(path: Path) -> bool:
    """Return whether a file belongs to Python, an installed package or radii: its imports are not followed."""
    if {"site-packages", "dist-packages"} & set(path.parts):  # the user's, or another environment's on the path
        return True
    return any(path.resolve().is_relative_to(folder) for folder in _installed_folders())


@cache
def _installed_folders() -> set[Path]:
    """Return the folders of installed code; radii itself may be a checkout."""
    keys = ("stdlib", "platstdlib", "purelib", "platlib")
    return {Path(__file__).resolve().parent, *(Path(sysconfig.get_path(key)).resolve() for key in keys)}

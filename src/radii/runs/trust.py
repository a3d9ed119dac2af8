"""Trust: a module that a run directory names is imported only if the user trusts it.

A recipe that the user passes may name code. A recipe inside a run directory may come from somebody else: its code is
used only if the user names the module again, or has run the same source before. The digests of such sources are
recorded outside the run. Nothing here imports the code.
"""

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from radii import disk
from radii.errors import ParameterError


class UntrustedError(ParameterError):
    """A run names code that the user has not trusted."""

    def __init__(self, message: str, module: str = "") -> None:
        super().__init__(message, "trust")
        self.module = module


def require(names: Iterable[str], trusted: Collection[str], where: Path) -> None:
    """Raise an UntrustedError for the first `module:name` whose module is not trusted and was not run before."""
    for name in names:
        module = module_of(name)
        if module and module not in trusted and not is_known(module):
            raise UntrustedError(
                f"{where} names the code {name!r}, which this user has not run before: read {module}, then trust it",
                module,
            )


def module_of(name: str) -> str:
    """Return the module of a `module:name`; empty for a component of radii."""
    return name.partition(":")[0] if ":" in name else ""


def record(names: Iterable[str]) -> None:
    """Record the digests of modules that the user runs."""
    digests = {digest for name in names if (module := module_of(name)) and (digest := source_digest(module))}
    if new := digests - _known():
        disk.make_folder(record_file().parent)
        # The first newline ends a line that a kill may have cut short.
        lines = "".join(["\n", *(f"{digest}\n" for digest in sorted(new))])
        disk.append(record_file(), lines.encode(), create=True)


def is_known(module: str) -> bool:
    """Return whether this user has run the same source before."""
    return source_digest(module) in _known()


def record_file() -> Path:
    """Return the file with the digests of all modules that were run, one per line."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "radii" / "trusted"


def _known() -> set[str]:
    file = record_file()
    return set(file.read_text().split()) if file.is_file() else set()


def source_digest(module: str) -> str | None:
    """Return the SHA-256 of a module's source and of all user code that it imports; None if there is no source."""
    sources: dict[str, Path] = {}
    _collect(module, sources)
    if module not in sources:
        return None
    digest = hashlib.sha256(module.encode())
    for name, path in sorted(sources.items()):
        digest.update(f"\0{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()


def _collect(module: str, sources: dict[str, Path]) -> None:
    """Add the files of a module, of its packages and of all that they import to `sources`."""
    for name, path in _files_of(module):
        if name in sources:
            continue
        sources[name] = path
        if path.suffix == ".py" and not _is_installed(path):
            for imported in _imports(name, path):
                _collect(imported, sources)


def _files_of(module: str) -> Iterator[tuple[str, Path]]:
    """Find the files of a module and of its packages, outermost first, without importing them."""
    places: Iterable[str] | None = [str(Path.cwd()), *sys.path]
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        try:
            spec = PathFinder.find_spec(name, list(places)) if places is not None else None
        except KeyError:  # a namespace package inside a package that is not imported has no known place
            return
        if spec is None:
            return
        if spec.origin and Path(spec.origin).is_file():
            yield name, Path(spec.origin)
        places = spec.submodule_search_locations


def _imports(name: str, path: Path) -> Iterator[str]:
    """Return what a source file imports; `from a import b` may name the module a.b."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names)) if base else ()


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def _is_installed(path: Path) -> bool:
    """Return whether a file belongs to Python, an installed package or radii: its imports are not followed."""
    if {"site-packages", "dist-packages"} & set(path.parts):  # of the user, or of another environment on the path
        return True
    return any(path.resolve().is_relative_to(place) for place in _places())


@cache
def _places() -> set[Path]:
    """Return the folders of installed code; radii itself may be a checkout."""
    keys = ("stdlib", "platstdlib", "purelib", "platlib")
    return {Path(__file__).resolve().parents[1], *(Path(sysconfig.get_path(key)).resolve() for key in keys)}

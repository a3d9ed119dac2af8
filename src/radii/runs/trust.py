"""Trust: check that the user named the code and the folders of images that a run directory names.

A recipe that the user passes may name code. A recipe inside a run directory may come from somebody else. Its code is
used only if the user names the module again or has run the same source before, and only if the module defines the name
itself. Images outside the run are read only if the user named their folder. Digests of code and folders that the user
named are recorded outside the run. Nothing here imports the code.
"""

import ast
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from radii import disk
from radii.errors import ParameterError
from radii.plugins import library_of
from radii.published_datasets import SIZES
from radii.sources import absolute_name, files_of, source_files


class UntrustedError(ParameterError):
    """A run names code that the user has not trusted."""

    def __init__(self, message: str, module: str = "") -> None:
        super().__init__(message, "trust")
        self.module = module


class UnnamedDataError(ParameterError):
    """A run names a folder of images that the user has not named."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "data")


# Code


def require(names: Iterable[str], trusted: Collection[str], where: Path) -> None:
    """Raise an UntrustedError for the first `module:name` that is neither trusted nor was run before.

    A trusted module covers the names that it defines. A name that it imports, such as numpy's `load`, has to be trusted
    as `module:name`.
    """
    for name in names:
        module = module_of(name)
        if not module or name in trusted or _name_digest(name) in _known():
            continue
        if module not in trusted and not is_known(module):
            raise UntrustedError(
                f"{where} names the code {name!r}, which this user has not run before. Read {module}, then trust it",
                module,
            )
        if not _defines(module, name.partition(":")[2]):
            raise UntrustedError(
                f"{where} names the code {name!r}, but {module} does not define it: it imports it, or lacks it. "
                "Find out what it is, then trust it",
                name,
            )


def module_of(name: str) -> str:
    """Return the module of a `module:name`; empty for a component of radii and for a library's model."""
    return name.partition(":")[0] if ":" in name and not library_of(name) else ""


def record(names: Iterable[str]) -> None:
    """Record the digests of modules that the user runs, and of the names in them."""
    names = [name for name in names if module_of(name)]
    digests = [digest for name in names for digest in (source_digest(module_of(name)), _name_digest(name)) if digest]
    _record(digests)


def _name_digest(name: str) -> str | None:
    source = source_digest(module_of(name))
    return source and hashlib.sha256(f"{source}\0{name}".encode()).hexdigest()


def _record(digests: Iterable[str]) -> None:
    if new := set(digests) - _known():
        disk.make_folder(record_file().parent)
        # The first newline ends a last line that a kill may have left incomplete.
        lines = "".join(["\n", *(f"{digest}\n" for digest in sorted(new))])
        disk.append(record_file().resolve(), lines.encode(), create=True)  # the user's own link is followed


def is_known(module: str) -> bool:
    """Return whether this user has run the same source before."""
    return source_digest(module) in _known()


def record_file() -> Path:
    """Return the file with the digests of the code and folders that the user named, one per line."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "radii" / "trusted"


def _known() -> set[str]:
    file = record_file()
    return set(file.read_text().split()) if file.is_file() else set()


# Images


def require_data(path: Path, dataset: str, run: Path) -> None:
    """Raise an UnnamedDataError if a run takes its images from a folder or file that the user has not named.

    Images inside the run, in RADII_DATA and of published datasets are always allowed.
    """
    images = path.resolve()
    allowed = [run.resolve(), *([Path(folder).resolve()] if (folder := os.environ.get("RADII_DATA")) else [])]
    if dataset in SIZES or not images.exists() or any(images.is_relative_to(folder) for folder in allowed):
        return
    if _data_digest(path) not in _known():
        raise UnnamedDataError(
            f"{run} takes its images from {path}, which this user has not named before. Name that folder or file."
        )


def record_data(path: Path) -> None:
    """Record a folder or file of images that the user named, if the record can be written."""
    with suppress(OSError):
        _record([_data_digest(path)])


def _data_digest(path: Path) -> str:
    return hashlib.sha256(b"data\0" + os.fsencode(path.resolve())).hexdigest()


# Sources


def source_digest(module: str) -> str | None:
    """Return the SHA-256 of a module's source and of all user code that it imports; None if there is no source."""
    sources = source_files(module)
    if module not in sources:
        return None
    digest = hashlib.sha256(module.encode())
    for name, path in sorted(sources.items()):
        digest.update(f"\0{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()


def _defines(module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> bool:
    """Return whether a module, or another module of its package, defines a name: a class, a function or a value."""
    path = dict(files_of(module)).get(module)
    if path is None or path.suffix != ".py" or (module, name) in seen:
        return False
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    seen |= {(module, name)}
    bindings = [_defined_by(node, module, package, name, seen) for node in _module_level(body)]
    defined = [binding for binding in bindings if binding is not None]
    return bool(defined) and all(defined)


def _is_own(value: ast.expr, module: str, seen: frozenset[tuple[str, str]]) -> bool:
    """Return whether the value of an assignment is of this package: not another name for code of somebody else.

    A call is, unless somebody else's function gets somebody else's, as in `partial(numpy.load, allow_pickle=True)`.
    """
    if isinstance(value, ast.Name):
        return _defines(module, value.id, seen)
    if isinstance(value, ast.IfExp | ast.BoolOp):
        choices = value.values if isinstance(value, ast.BoolOp) else [value.body, value.orelse]
        return all(_is_own(choice, module, seen) for choice in choices)
    if isinstance(value, ast.Call):
        named = [argument for argument in value.args if isinstance(argument, ast.Name | ast.Attribute)]
        return _is_own(value.func, module, seen) or all(_is_own(argument, module, seen) for argument in named)
    return isinstance(value, ast.Lambda | ast.Constant)


def _module_level(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a module, including those inside `if`, `try`, `with` and loops."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ExceptHandler):
            yield from _module_level(ast.iter_child_nodes(node))


def _defined_by(node: ast.AST, module: str, package: str, name: str, seen: frozenset[tuple[str, str]]) -> bool | None:
    """Return True if a statement defines a name, False if it binds the name to other code, else None."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return True if node.name == name else None
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if not any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return None
        return node.value is None or _is_own(node.value, module, seen)
    if isinstance(node, ast.Import):
        return False if any((alias.asname or alias.name) == name for alias in node.names) else None
    if not isinstance(node, ast.ImportFrom):
        return None
    base, top = absolute_name(node, package), module.partition(".")[0]
    imported = {alias.asname or alias.name: alias.name for alias in node.names}
    if name in imported:
        return base.partition(".")[0] == top and _defines(base, imported[name], seen)
    # `from x import *` may bind any name. It counts only if x is in the same package and defines the name.
    return True if "*" in imported and base.partition(".")[0] == top and _defines(base, name, seen) else None

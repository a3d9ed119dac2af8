"""The imports between the packages of radii, read from the source: nothing is imported."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "radii"
LAYERS = (
    ("errors", "fields", "published_datasets"),
    ("disk", "onnx", "plugins"),
    ("smoothing",),
    ("objectives", "certifiers", "models", "datasets", "engines", "runs", "device"),
    ("reports", "provenance"),
    ("workers", "training", "certification", "interop"),
    ("papers", "bounds"),
    ("cli",),
)
"""The layers, the lowest first, and the packages of each. A package imports only from lower layers."""
PEERS = {"workers", "training", "certification", "interop"}
"""Packages of one layer that may import each other's public modules, without cycles."""
PACKAGE_OF = {"__main__": "cli"}
"""Files beside the packages that belong to a package of another name."""


def modules() -> list[Path]:
    """Every file of the package except its own __init__, which only names things."""
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def package_of(path: Path) -> str:
    """The package or top-level module that a file belongs to."""
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return PACKAGE_OF.get(name, name)


def layer_of(name: str) -> int:
    """The layer of a package; the lowest is 0."""
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    raise LookupError(f"tools/imports.py has no {name} in LAYERS: add it to a layer there")


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a file imports, at its top or inside its functions."""
    package = ".".join(path.relative_to(SOURCE.parent).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{home}.{alias.name}" for alias in node.names)


def packages_used(path: Path) -> set[str]:
    """The other packages that a file imports from."""
    names = {name.split(".")[1] for name in imports(path) if name.startswith("radii.")}
    return {PACKAGE_OF.get(name, name) for name in names} - {package_of(path)}


def uses() -> dict[str, set[str]]:
    """Every package with the packages that it imports from."""
    found: dict[str, set[str]] = {}
    for path in modules():
        found.setdefault(package_of(path), set()).update(packages_used(path))
    return found

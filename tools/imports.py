"""The imports between the packages and modules of radii, read from the source: nothing is imported."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "radii"
LAYERS = (
    ("errors", "fields", "published_datasets", "estimate", "notebook", "sources"),
    ("disk", "onnx_graph", "plugins"),
    ("smoothing",),
    ("objectives", "certifiers", "models", "datasets", "engines", "runs", "device"),
    ("reports", "provenance"),
    ("workers", "training", "certification", "interop"),
    ("papers", "bounds", "serving"),
    ("cli",),
)
"""The layers, the lowest first, and the packages of each. A package imports only from lower layers."""
PEERS = {"workers", "training", "certification", "interop"}
"""Packages of one layer that may import each other's public modules, without cycles."""
PACKAGE_OF = {"__main__": "cli", "_onnx_trial": "onnx_graph"}
"""Files beside the packages that belong to a package of another name."""

Graph = dict[str, set[str]]
"""Every module with the modules that it imports."""


def modules(source: Path = SOURCE) -> list[Path]:
    """Return every file of the package except its own __init__, which only names things."""
    return sorted(path for path in source.rglob("*.py") if path != source / "__init__.py")


def package_of(path: Path, source: Path = SOURCE) -> str:
    """Return the package or top-level module that a file belongs to."""
    name = path.relative_to(source).parts[0].removesuffix(".py")
    return PACKAGE_OF.get(name, name)


def layer_of(name: str) -> int:
    """Return the layer of a package; the lowest is 0."""
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    raise LookupError(f"tools/imports.py has no {name} in LAYERS: add it to a layer there")


def imports(path: Path, source: Path = SOURCE) -> Iterator[str]:
    """Yield the dotted names that a file imports, at its top, inside its functions or for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        yield from _imported_names(node, path, source)


@cache
def packages_used(path: Path) -> set[str]:
    """Return the other packages that a file imports from."""
    names = {name.split(".")[1] for name in imports(path) if name.startswith("radii.")}
    return {PACKAGE_OF.get(name, name) for name in names} - {package_of(path)}


def uses() -> Graph:
    """Return every package with the packages that it imports from."""
    packages: Graph = {}
    for path in modules():
        packages.setdefault(package_of(path), set()).update(packages_used(path))
    return packages


def module_graph(source: Path = SOURCE) -> Graph:
    """Return the imports between modules that happen when the program runs: those for types alone are left out."""
    names = {_module_name(path, source): path for path in modules(source)}
    graph: Graph = {}
    for name, path in names.items():
        imported = {
            found for node in _running(ast.parse(path.read_text())) for found in _imported_names(node, path, source)
        }
        targets = {target if target in names else target.rpartition(".")[0] for target in imported}
        graph[name] = (targets & set(names)) - {name}
    return graph


def longest_chain(graph: Graph) -> list[str]:
    """Return the modules of the longest chain of imports, the importer first; raise ValueError for a cycle."""
    chains: dict[str, list[str]] = {}

    def chain(name: str, above: tuple[str, ...]) -> list[str]:
        if name in above:
            raise ValueError(f"modules import each other: {' -> '.join([*above[above.index(name) :], name])}")
        if name not in chains:
            below = [chain(other, (*above, name)) for other in sorted(graph[name])]
            chains[name] = [name, *max(below, key=len, default=[])]
        return chains[name]

    return max((chain(name, ()) for name in sorted(graph)), key=len)


def private_uses(path: Path, source: Path = SOURCE) -> Iterator[str]:
    """Yield the private modules and names of other packages that a file imports, or reads from an imported module."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    home = f"radii.{package_of(path, source)}."
    foreign: dict[str, str] = {}
    for node in nodes:
        for name in _imported_names(node, path, source):
            if name.startswith("radii.") and not f"{name}.".startswith(home):
                foreign[_bound_as(node, name)] = name
                if any(map(_is_private, name.split("."))):
                    yield name
    for node in nodes:
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner in foreign:
                yield f"{foreign[owner]}.{node.attr}"


def _bound_as(node: ast.AST, name: str) -> str:
    """Return the name that an import statement gives to what it imports as `name`."""
    assert isinstance(node, ast.Import | ast.ImportFrom)
    last = name.rpartition(".")[2]
    return next((alias.asname for alias in node.names if alias.asname and alias.name in (name, last)), last)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _module_name(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")


def _imported_names(node: ast.AST, path: Path, source: Path) -> Iterator[str]:
    """Yield the dotted names of one import statement, and nothing for other nodes."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = ".".join(path.relative_to(source.parent).parent.parts)
        home = resolve_name("." * node.level + (node.module or ""), package)
        yield from (f"{home}.{alias.name}" for alias in node.names)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, except what stands under `if TYPE_CHECKING`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield from _running(child)

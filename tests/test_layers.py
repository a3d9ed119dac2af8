"""The layers of the package: who may import whom, who prints, and what starts without torch."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.imports import LAYERS, PEERS, SOURCE, imports, layer_of, modules, package_of, packages_used

LIGHT = (
    "__init__",
    "bounds",
    "disk",
    "errors",
    "cli/__init__",
    "reports",
    "runs",
    "training/interrupts",
    "workers/pool",
    "plugins",
    "published_datasets",
    "smoothing/bounds",
    "smoothing/sequential",
)
"""Files, and whole folders, that start without torch."""
PRINTING = {"rich", "print"}


def violations(path: Path) -> Iterator[str]:
    """What a file does that its layer must not do."""
    here, name = package_of(path), path.relative_to(SOURCE)
    others = packages_used(path) - (PEERS if here in PEERS else set())
    yield from (f"{name} imports {there}" for there in sorted(others) if layer_of(there) >= layer_of(here))
    if here not in LAYERS[-1]:
        yield from (f"{name} uses {word}, only {LAYERS[-1]} may" for word in sorted(words(path) & PRINTING))


def words(path: Path) -> set[str]:
    """Every plain name of a file, and the packages that it imports."""
    plain = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    return plain | {name.split(".")[0] for name in imports(path)}


def test_imports_go_down_and_only_the_top_layer_prints() -> None:
    assert [violation for path in modules() for violation in violations(path)] == []


def test_layers_list_every_package() -> None:
    assert {package_of(path) for path in modules()} == {name for names in LAYERS for name in names}


def light() -> Iterator[str]:
    """The dotted names of what starts without torch."""
    for name in LIGHT:
        found = [*SOURCE.glob(f"{name}.py"), *sorted(SOURCE.glob(f"{name}/*.py"))]
        assert found, f"LIGHT has {name}, which is not there"
        yield from (".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in found)


def test_starts_without_torch() -> None:
    lines = [f"import {name}\nassert 'torch' not in sys.modules, '{name} imports torch'" for name in light()]
    subprocess.run([sys.executable, "-c", "\n".join(["import sys", *lines])], check=True)

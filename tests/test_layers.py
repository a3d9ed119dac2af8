"""The layers of the package: who may import whom, who prints, and what starts without torch."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "radii"
LAYERS = [
    {"fields"},
    {"plugins"},
    {"smoothing"},
    {"objectives", "certifiers", "models", "datasets", "experiment"},
    {"engine", "report"},
    {"progress", "arguments", "demo", "cli"},
]
SOURCES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py" or path.parent != ROOT)


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def level(name: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if name in layer)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "radii":
            yield from (f"radii.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    here = part(path)
    if here == "__main__":
        return
    for name in imports(path):
        if not name.startswith("radii."):
            continue
        there = name.split(".")[1]
        inside = here == there or {here, there} <= LAYERS[-1]
        assert inside or level(there) < level(here), f"{here} imports {there}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_command_line_prints(path: Path) -> None:
    if level(part(path) if part(path) != "__main__" else "cli") == len(LAYERS) - 1:
        return
    names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert "print" not in names


@pytest.mark.parametrize(
    "module",
    ["radii", "radii.cli", "radii.report", "radii.experiment.run", "radii.smoothing.bounds", "radii.plugins"],
)
def test_starts_without_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

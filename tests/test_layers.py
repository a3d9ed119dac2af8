"""The layers of the package: who may import whom, who prints, and what starts without torch."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.imports import (
    LAYERS,
    PEERS,
    SOURCE,
    imports,
    layer_of,
    longest_chain,
    module_graph,
    modules,
    package_of,
    packages_used,
    private_uses,
)

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
    """Yield what a file does that its layer must not do."""
    here, name = package_of(path), path.relative_to(SOURCE)
    others = packages_used(path) - (PEERS if here in PEERS else set())
    yield from (f"{name} imports {there}" for there in sorted(others) if layer_of(there) >= layer_of(here))
    if here not in LAYERS[-1]:
        yield from (f"{name} uses {word}, only {LAYERS[-1]} may" for word in sorted(words(path) & PRINTING))


def words(path: Path) -> set[str]:
    """Return every plain name of a file, and the packages that it imports."""
    plain = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    return plain | {name.split(".")[0] for name in imports(path)}


def test_imports_go_down_and_only_the_top_layer_prints() -> None:
    assert [violation for path in modules() for violation in violations(path)] == []


def test_layers_list_every_package() -> None:
    assert {package_of(path) for path in modules()} == {name for names in LAYERS for name in names}


def test_modules_do_not_import_each_other() -> None:
    assert longest_chain(module_graph())


def test_an_import_cycle_is_named() -> None:
    with pytest.raises(ValueError, match="a -> b -> a"):
        longest_chain({"a": {"b"}, "b": {"a"}})


def test_no_package_uses_private_names_of_another() -> None:
    assert [f"{path.relative_to(SOURCE)} uses {name}" for path in modules() for name in private_uses(path)] == []


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("from radii.engines._folding import folded", ["radii.engines._folding.folded"]),
        ("from radii.runs.run import _read", ["radii.runs.run._read"]),
        ("from radii.runs import run\nrun._read()", ["radii.runs.run._read"]),
        ("from radii.runs import run as opened\nopened._read()", ["radii.runs.run._read"]),
        ("from radii.cli._own import own", []),
        ("from radii.runs import run\nrun.__name__", []),
    ],
)
def test_uses_of_private_names_are_recognised(line: str, used: list[str], tmp_path: Path) -> None:
    file = tmp_path / "radii" / "cli" / "verb.py"
    file.parent.mkdir(parents=True)
    file.write_text(line)
    assert list(private_uses(file, tmp_path / "radii")) == used


def test_chain_of_imports_is_short() -> None:
    chain = longest_chain(module_graph())
    assert len(chain) - 1 <= 12, " -> ".join(chain)


def light() -> Iterator[str]:
    """Yield the dotted names of what starts without torch."""
    for name in LIGHT:
        found = [*SOURCE.glob(f"{name}.py"), *sorted(SOURCE.glob(f"{name}/*.py"))]
        assert found, f"LIGHT has {name}, which does not exist"
        yield from (
            ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__") for path in found
        )


def test_starts_without_torch() -> None:
    lines = [f"import {name}\nassert 'torch' not in sys.modules, '{name} imports torch'" for name in light()]
    subprocess.run([sys.executable, "-c", "\n".join(["import sys", *lines])], check=True)

"""Nothing reads above the repository root: data and logs come from RADII_DATA and RADII_LOGS."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [
    path for folder in ("src", "tests", "tools", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
]
PARENT = re.compile(r"__file__\)(?:\.resolve\(\)|\.absolute\(\))?((?:\.parent\b|\.parents\[\d+\])+)")
"""An expression of a folder above a file."""


def steps(expression: str) -> int:
    """How many folders up `.parent.parents[1]` goes."""
    return expression.count(".parent") + sum(int(number) for number in re.findall(r"\[(\d+)\]", expression))


def too_high(path: Path) -> list[str]:
    """The expressions of a file that point above the root."""
    depth = len(path.relative_to(ROOT).parts)
    return [
        f"{path.name}: {expression}" for expression in PARENT.findall(path.read_text()) if steps(expression) > depth
    ]


def test_no_file_reads_above_the_root() -> None:
    assert [expression for path in FILES for expression in too_high(path)] == []


def test_only_one_script_reads_beside_the_checkout() -> None:
    paths = [path for folder in ("scripts", ".ci") for path in (ROOT / folder).iterdir()] + FILES
    assert [path.name for path in paths if re.search(r"[\"'/]shared[\"'/]", path.read_text())] == ["beside"]

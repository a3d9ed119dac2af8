"""Nothing reads above the repository root: data and logs come from RADII_DATA and RADII_LOGS."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [
    path for folder in ("src", "tests", "tools", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
]
CLIMB = re.compile(r"__file__\)(?:\.resolve\(\)|\.absolute\(\))?((?:\.parent\b|\.parents\[\d+\])+)")
"""A path that starts at a file and climbs."""


def steps(climb: str) -> int:
    """How many folders up `.parent.parents[1]` goes."""
    return climb.count(".parent") + sum(int(number) for number in re.findall(r"\[(\d+)\]", climb))


def too_high(path: Path) -> list[str]:
    """The climbs of a file that end above the root."""
    depth = len(path.relative_to(ROOT).parts)
    return [f"{path.name}: {climb}" for climb in CLIMB.findall(path.read_text()) if steps(climb) > depth]


def test_no_file_climbs_above_the_root() -> None:
    assert [climb for path in FILES for climb in too_high(path)] == []


def test_only_one_script_looks_beside_the_checkout() -> None:
    paths = [path for folder in ("scripts", ".ci") for path in (ROOT / folder).iterdir()] + FILES
    assert [path.name for path in paths if re.search(r"[\"'/]shared[\"'/]", path.read_text())] == ["beside"]

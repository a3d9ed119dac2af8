"""The tables of the papers that the repository can remake."""

import tomllib
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "tables"


def tables() -> str:
    """The files of tables/, with their titles; a sentence where there are none."""
    files = sorted(FOLDER.rglob("*.toml"))
    if not files:
        return "No table is described by a file yet; the numbers of the papers that are compared are in [results](results.md)."
    lines = [f"| `{path.relative_to(FOLDER).with_suffix('').as_posix()}` | {_title(path)} |" for path in files]
    return "\n".join(["| table | what it shows |", "| --- | --- |", *lines])


def _title(path: Path) -> str:
    found = tomllib.loads(path.read_text())
    return str(found.get("title", "")).replace("|", "\\|")

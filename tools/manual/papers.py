"""The tables of the papers that the repository can remake."""

import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "tables"


def tables() -> str:
    """Every file of tables/ that describes a table, with its title and rows."""
    found = {path.stem: tomllib.loads(path.read_text()) for path in sorted(FOLDER.glob("*.toml"), key=_place)}
    lines = [_line(name, table) for name, table in found.items() if "title" in table]
    return "\n".join(["| table | dataset | what it shows | rows |", "| --- | --- | --- | --- |", *lines])


def _place(path: Path) -> tuple[str, int]:
    """The paper and the number of the table."""
    paper, _, number = path.stem.partition("-")
    return paper, int(number) if number.isdecimal() else 0


def _line(name: str, table: dict[str, Any]) -> str:
    dataset = table.get("dataset", "")
    where = dataset if isinstance(dataset, str) else ", ".join(dataset)
    title = str(table["title"]).replace("|", "\\|")
    return f"| `{name}` | {where} | {title} | {len(table.get('rows', ()))} |"

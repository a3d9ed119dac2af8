"""The size and shape of src/radii, before and after it was divided into rooms: a table in CONTRIBUTING.md.

`scripts/house` measures the source and writes the table. The numbers of the commit before are kept in house.json; to
measure another tree, `python -m tools.metrics TREE` prints its numbers.
"""

import ast
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.imports import ROOT, SOURCE, longest_chain, module_graph, modules

PAGE = ROOT / "CONTRIBUTING.md"
RECORD = Path(__file__).with_name("house.json")
START, END = "<!-- measured by scripts/house -->\n", "<!-- end of the measured table -->"
COMMANDS = ("train", "certify", "certify_dataset", "report")

Numbers = dict[str, float]


def measure_source(source: Path = SOURCE) -> Numbers:
    """Return what can be read from the source without running it."""
    files = [source / "__init__.py", *modules(source)]
    lines = sum(len(path.read_text().splitlines()) for path in files)
    lengths = [length for path in files for length in function_lengths(path)]
    return {
        "files": len(files),
        "lines": lines,
        "lines a file": round(lines / len(files)),
        "functions": len(lengths),
        "lines of a function, median": statistics.median(lengths),
        "lines of a function, 90th percentile": round(statistics.quantiles(lengths, n=10)[-1]),
        "longest chain of imports": len(longest_chain(module_graph(source))) - 1,
    }


def function_lengths(path: Path) -> list[int]:
    """Return the number of lines of every function and method of a file, from `def` to its end."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]


def measure_calls(tree: Path = ROOT) -> Numbers:
    """Return the modules that the commands run, measured by tools/calls.py with the radii of a tree."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    script = str(ROOT / "tools" / "calls.py")
    done = subprocess.run([sys.executable, script], cwd=tree, env=environment, check=True, stdout=subprocess.PIPE)
    calls = json.loads(done.stdout)
    return {f"`{name}`: modules on the longest call path": float(len(calls[name]["path"])) for name in COMMANDS} | {
        f"`{name}`: modules that run": float(len(calls[name]["ran"])) for name in COMMANDS
    }


def table(record: dict[str, Any], now: Numbers) -> str:
    """Return the Markdown table of the numbers before and now."""
    rows = [f"| {name} | {_written(record['before'][name])} | {_written(value)} |" for name, value in now.items()]
    return "\n".join([f"| | before ({record['commit']}) | now |", "| --- | --- | --- |", *rows]) + "\n"


def _written(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"


def read_table(text: str) -> dict[str, float]:
    """Return the numbers in the column "now" of the table in a page."""
    lines = text[text.index(START) + len(START) : text.index(END)].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: float(now.replace(",", "")) for name, _, now in cells}


def write_table() -> None:
    """Measure the source and what the commands run, and write both into CONTRIBUTING.md."""
    record = json.loads(RECORD.read_text())
    text = PAGE.read_text()
    start, end = text.index(START) + len(START), text.index(END)
    PAGE.write_text(text[:start] + table(record, measure_source() | measure_calls()) + text[end:])


if __name__ == "__main__":
    tree = Path(sys.argv[1]).resolve()
    print(json.dumps(measure_source(tree / "src" / "radii") | measure_calls(tree), indent=1))

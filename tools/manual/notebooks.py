"""Run the notebooks of examples/ without Jupyter: `python -m tools.manual.notebooks` writes their outputs into them."""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples"


def notebooks() -> list[Path]:
    """Return every notebook."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    """Read a notebook."""
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def code_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells of code."""
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the cells in order in an empty directory, put what they show into their outputs, and return their names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(code_cells(notebook), start=1):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                value = _run("".join(cell["source"]), names, number)
            cell["execution_count"] = number
            cell["outputs"] = [*_stream(printed.getvalue()), *_shown(value, number), *_figures()]
    return names


def _run(source: str, names: dict[str, Any], number: int) -> Any:
    """Run a cell; return the value of its last expression, as a notebook shows it."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    where = f"cell {number}"
    exec(compile(ast.Module(body, []), where, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)  # type: ignore[attr-defined]


def _stream(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []


def _shown(value: Any, number: int) -> list[dict[str, Any]]:
    if value is None:
        return []
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if callable(html := getattr(value, "_repr_html_", None)):
        data["text/html"] = html().splitlines(keepends=True)
    return [{"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": number}]


def _figures() -> list[dict[str, Any]]:
    """Return the open figures of pyplot as pictures, and close them, as a notebook does after every cell."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    pictures = []
    for number in pyplot.get_fignums():
        content = io.BytesIO()
        pyplot.figure(number).savefig(content, format="png", dpi=72)
        pictures.append(base64.b64encode(content.getvalue()).decode())
    pyplot.close("all")
    return [{"output_type": "display_data", "data": {"image/png": picture}, "metadata": {}} for picture in pictures]


def main() -> None:
    os.environ.setdefault("MPLBACKEND", "agg")
    os.environ["OMP_NUM_THREADS"] = "1"
    for path in notebooks():
        notebook = read(path)
        execute(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        sys.stdout.write(f"{path.name}\n")


if __name__ == "__main__":
    main()

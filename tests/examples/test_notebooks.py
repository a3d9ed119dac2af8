"""The notebooks run from an empty directory, in seconds, and show what they say."""

from typing import Any

import pytest

from tools.manual.notebooks import FOLDER, code_cells, execute, notebooks, read

DOCS = FOLDER.parent / "docs"
pytestmark = [pytest.mark.slow, pytest.mark.docs]


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, extra in (("matplotlib", "plot"), ("pandas", "pandas")):
        pytest.importorskip(name, reason=f"the extra radii[{extra}] is not installed")
    monkeypatch.setenv("MPLBACKEND", "agg")


def test_own_model() -> None:
    notebook = read(FOLDER / "own_model.ipynb")
    names: dict[str, Any] = execute(notebook)
    assert names["after"].accuracy(0.25) > names["before"].accuracy(0.25) + 0.05
    assert names["answers"] == [0, 0]
    shown = [output for cell in code_cells(notebook) for output in cell["outputs"]]
    curves = [output for output in shown if "<svg" in "".join(output.get("data", {}).get("text/html", []))]
    assert len(curves) == 2, "results show a table and a curve"


def test_transfer() -> None:
    names: dict[str, Any] = execute(read(FOLDER / "transfer.ipynb"))
    assert set(names["results"]) == {"teacher", "teacher-to-digits_mlp", "baseline"}
    assert all(len(found) == 57 for found in names["results"].values())
    assert len(names["axes"].get_legend_handles_labels()[1]) == 3


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_notebook_shows_its_outputs(path: Any) -> None:
    cells = list(code_cells(read(path)))
    assert any(cell["outputs"] for cell in cells), "run python -m tools.manual.notebooks"
    assert not any("/tmp" in str(cell["outputs"]) for cell in cells), "no path of a machine"
    assert path.name in (DOCS / "notebooks.md").read_text()

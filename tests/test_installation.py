"""The base installation: what works without the extras, and what starting costs."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from radii.errors import MissingExtraError
from radii.runs.run import Run

ROOT = Path(__file__).parents[1]
EXTRAS = (
    *("dask", "distributed", "foolbox", "huggingface_hub", "matplotlib", "mlflow", "nncf"),
    *("onnx", "onnxruntime", "onnxscript", "openvino", "pandas", "pooch", "requests", "sklearn", "tensorboard", "timm"),
    *("torchvision", "transformers", "wandb"),
)
WITHOUT = f"""
import sys
for name in {EXTRAS!r}:
    sys.modules[name] = None  # as if it were not installed
"""


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_base_installation_trains_certifies_and_reports(tmp_path: Path) -> None:
    answer = python(
        WITHOUT
        + """
import radii
run = radii.train("digits/gaussian-0.25", run="g", settings=["training.epochs=1"])
smoothed = radii.load(run)
results = radii.certify_dataset(smoothed, "digits", seed=0, every=100, estimation=1000, out="mine.tsv")
results.report("report")
""",
        tmp_path,
    )
    assert (tmp_path / "report/report.html").is_file()
    assert not (tmp_path / "report/curves.svg").exists()
    assert "need matplotlib, which is not installed" in answer.stderr
    assert "[plot]" in answer.stderr


def test_predict_imports_no_extra(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    digits_run("run")
    python(
        f"""
import radii, sys, torch
smoothed = radii.load("run", engine="torch")
radii.predict(smoothed, torch.zeros(1, 8, 8))
own = ("cyclopts", "jinja2", "radii.reports.page", "rich", "scipy.stats", "sympy", "torch.distributed.tensor")
dear = [name for name in (*{EXTRAS!r}, *own) if name in sys.modules]
assert not dear, dear
""",
        tmp_path,
    )


def test_openvino_engine_imports_no_tensor_parallelism(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    """torch's check of a trace imports it, which would take as long as the rest of `radii predict`."""
    pytest.importorskip("openvino", reason="the extra radii[openvino] is not installed")
    digits_run("run")
    code = (
        "import radii, sys\nradii.load('run', engine='openvino')\nassert 'torch.distributed.tensor' not in sys.modules"
    )
    python(code, tmp_path)


def test_figure_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from radii.reports.figures import make_axes

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib, which is not installed\. Install it by: .*\[plot\]"):
        make_axes(1, 1)


def test_lock_file_has_the_dependencies_and_the_tested_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    (own,) = (package for package in locked if package["name"] == project["name"])
    stated = [Requirement(text) for text in project["dependencies"]]
    required = own["metadata"]["requires-dist"]
    assert {entry["name"]: SpecifierSet(entry["specifier"]) for entry in required if "marker" not in entry} == {
        requirement.name: requirement.specifier for requirement in stated
    }
    assert set(own["metadata"]["provides-extras"]) == set(project["optional-dependencies"])
    pinned = dict(
        line.lower().split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    versions = {package["name"]: package["version"] for package in locked if "version" in package}
    for requirement in stated:
        assert versions[requirement.name] == pinned[requirement.name], requirement.name

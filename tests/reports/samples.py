"""Logs, runs and inputs for tests of reports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from radii import disk
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary
from radii.runs.certificates import COHEN, Certificates, Row
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run

SEQUENTIAL: dict[str, Any] = {"procedure": "sequential", "parameters": {"radii": [0.25, 0.5], "failure": 0.001}}


def write_log(path: Path, *rows: tuple[int, int, int, float], time: str = "1.0") -> Path:
    """Write a log with the columns of Cohen et al.: index, label, prediction and radius of each image."""
    lines = [(*row, int(row[1] == row[2]), time) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, cells)) + "\n" for cells in (COHEN, *lines)))
    return path


def write_run(path: Path, seconds: Sequence[float] = (), objective: str = "gaussian", **columns: float) -> Run:
    """Write the recipe of a run, and its training.csv with epochs of these seconds and other columns."""
    run = Run(path)
    path.mkdir(exist_ok=True)
    training = Training(epochs=3, images_per_step=8, learning_rate=0.1)
    method = {"name": objective}
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, objective=method, training=training)
    disk.write(run.recipe_file, recipe.to_toml())
    if seconds:
        run.write_history([{"epoch": number, "seconds": value, **columns} for number, value in enumerate(seconds)])
    return run


def entry(name: str, *radii: float, times: int = 1, **header: Any) -> Entry:
    """Return an input with these certified radii, 0 for an abstention, repeated some times."""
    rows = [Row(index, 1, 1 if radius else -1, radius, 1.0) for index, radius in enumerate(radii * times)]
    return Entry(name, Summary(Certificates(name, rows, {"sigma": 0.5, "procedure": "fixed", **header})))

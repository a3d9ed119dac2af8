"""Curves show only tested radii."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radii.reports.figures import draw_bars, draw_curves
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary
from radii.runs.certificates import Certificates, Row


def entry(certifier: str, parameters: dict[str, Any], radii: Sequence[float]) -> Entry:
    rows = [Row(index, 1, 1, radius, 1.0) for index, radius in enumerate(radii)]
    return Entry(certifier, Summary(Certificates("a", rows, {"procedure": certifier, "parameters": parameters})))


def drawn(entry: Entry) -> set[tuple[float, float]]:
    """Every point of every line."""
    (axes,) = draw_curves([entry]).axes
    points: list[Any] = [line.get_xydata() for line in axes.lines]
    return {(float(x), float(y)) for line in points for x, y in line}


@pytest.mark.parametrize("radii", [(0.25, 0.5), (0.3,)])
def test_only_tested_radii_are_drawn(radii: tuple[float, ...]) -> None:
    points = drawn(entry("sequential", {"radii": radii}, [radii[0], radii[-1], radii[-1], 0.0]))
    assert {x for x, _ in points} == set(radii)
    assert (radii[-1], 50.0 if len(radii) > 1 else 75.0) in points


def test_a_prediction_is_a_point_at_radius_zero() -> None:
    assert drawn(entry("prediction", {"samples": 100}, [0.0, 0.0])) == {(0.0, 100.0)}


def test_certifier_that_bounds_the_radius_is_a_curve() -> None:
    assert len(drawn(entry("fixed", {}, [0.1, 0.5]))) > 100


@pytest.mark.parametrize(
    ("count", "name"), [(3, "a label of many words " * 4), (12, "smoothmix-to-lenet"), (12, "x" * 150)]
)
def test_names_leave_the_curves_their_room(count: int, name: str) -> None:
    some = entry("fixed", {}, [0.1, 0.5])
    figure = draw_curves([replace(some, source=f"{number} {name}") for number in range(count)])
    figure.draw_without_rendering()
    (axes,), width = figure.axes, figure.bbox.width
    assert axes.get_window_extent().width > 0.85 * width
    assert axes.get_window_extent().height > 0.7 * 4.5 * figure.dpi
    assert all(text.get_window_extent().x1 <= 1.02 * width for text in [*axes.texts, *figure.legends])


def test_long_names_keep_half_of_the_width_for_bars() -> None:
    figure = draw_bars(["short", "a label of many words " * 5], [1.0, 2.0], "seconds")
    figure.draw_without_rendering()
    assert figure.axes[0].get_window_extent().width > 0.5 * figure.bbox.width


def test_matplotlibrc_of_the_current_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nfigure.dpi: 7\n")
    code = "from radii.reports.figures import draw_bars; print(draw_bars(['a'], [1.0], 's').dpi)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) > 7

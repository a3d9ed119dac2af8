"""Costs of rows are estimated from a few timed steps, which are kept."""

import json
from pathlib import Path

import pytest

from radii.papers import budgets, tables
from radii.papers.cost import CACHE, Seconds, Timings, row_cost
from radii.runs import recipe


def test_timings_are_kept_and_a_damaged_file_counts_as_empty(tmp_path: Path) -> None:
    stated = recipe.read(recipe.find("digits/catrs-0.25"))
    assert Timings(tmp_path, measure=False).of(stated) is None
    timed = Timings(tmp_path, measure=True).of(stated)
    assert timed is not None
    assert timed.training > timed.sample > 0
    assert Timings(tmp_path, measure=False).of(stated) == timed
    (tmp_path / CACHE).write_text('{"x": ')
    assert Timings(tmp_path, measure=False).of(stated) is None


def test_sweep_of_weights_is_timed_once(tmp_path: Path) -> None:
    """Hyper-parameters that cost nothing, such as weights and warm-ups, share a timing; steps and copies do not."""
    timed: list[str] = []
    timings = Timings(tmp_path, measure=True, on_timed=timed.append)
    settings = ["weight=1.0", "weight=2.0", "entropy_weight=0.1", "copies=3", "weight=0.0"]
    for setting in settings:
        timings.of(recipe.read(recipe.find("digits/consistency-0.25"), [f"objective.{setting}"]))
    assert len(timed) == 3


def test_timings_of_other_machines_and_processes_are_kept(tmp_path: Path) -> None:
    """A second process that began before the first had timed anything, and another number of threads."""
    first, second = (Timings(tmp_path, measure=True) for _ in range(2))
    recipes = [recipe.read(recipe.find(f"digits/{name}-0.25")) for name in ("gaussian", "consistency")]
    (tmp_path / CACHE).write_text('{"another machine": {"x": [1.0, 2.0]}}')
    timed = [timings.of(stated) for timings, stated in zip((first, second), recipes, strict=True)]
    known = Timings(tmp_path, measure=False)
    assert [known.of(stated) for stated in recipes] == timed
    assert json.loads((tmp_path / CACHE).read_text())["another machine"] == {"x": [1.0, 2.0]}


def test_timings_are_measured_again_on_request(tmp_path: Path) -> None:
    stated = recipe.read(recipe.find("digits/gaussian-0.25"))
    timed: list[str] = []
    for again in (False, False, True):
        Timings(tmp_path, measure=True, again=again, on_timed=timed.append).of(stated)
    assert len(timed) == 2


def cost(table: tables.PaperTable, label: str, budget: budgets.Budget, timings: Timings) -> float:
    parts = row_cost(table, table.row(label), budget, timings)
    assert parts is not None
    return sum(parts.values())


def test_cost_includes_the_teacher_and_the_votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timings, "of", lambda *_: Seconds(1e-3, 1e-6))
    timings, small = Timings(tmp_path, measure=False), budgets.find_budget("small")
    table = tables.load("crt-2")
    direct, taught = (cost(table, label, small, timings) for label in ("SmoothMix, DLA", "CRT, DLA"))
    assert direct == pytest.approx(1e-3 * 50_000 * 6 + 1e-6 * 500 * 10_000)
    assert taught == pytest.approx(2 * 1e-3 * 50_000 * 6 + 1e-6 * 500 * 10_000)
    catrs = tables.load("catrs-3")
    voted = cost(catrs, "CAT-RS, sigma 0.50", small, timings)
    assert voted == pytest.approx(2 * 1e-3 * 60_000 * 6 + 1e-6 * 60_000 * 100 + 1e-6 * 500 * 10_000)

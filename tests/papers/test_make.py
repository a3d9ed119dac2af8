"""Rows of a table are trained and certified as their paper does."""

from pathlib import Path

import pytest

from radii.certification.certify import CertificationConfig
from radii.papers import budgets, tables
from radii.papers.cost import Seconds, Timings, row_cost
from radii.papers.make import Maker
from radii.papers.tables import TableError
from radii.runs.run import Run


def test_row_without_a_system_cannot_be_made(tmp_path: Path) -> None:
    row = tables.Row(label="Other", reported={}, status="missing", why="nobody knows how")
    with pytest.raises(TableError, match="cannot be made: nobody knows how"):
        Maker(tmp_path, budgets.find_budget("small")).make(tables.load("crt-2"), row)


@pytest.mark.parametrize(("name", "every"), [("small", 100), ("paper", 100)])
def test_every_100th_photograph_is_certified(
    name: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 of 50,000, which is what the cost is of."""
    chosen: list[CertificationConfig] = []
    monkeypatch.setattr("radii.papers.make.certify_run", lambda config, **_: chosen.append(config))
    monkeypatch.setattr(Maker, "train", lambda *_: Run(tmp_path))
    monkeypatch.setattr(Timings, "of", lambda *_: Seconds(0.0, 1.0))
    budget, table = budgets.find_budget(name), tables.load("macer-2")
    row = table.rows[0]
    Maker(tmp_path, budget).make(table, row)
    assert [config.every for config in chosen] == [every]
    parts = row_cost(table, row, budget, Timings(tmp_path, measure=False))
    assert parts is not None
    assert sum(parts.values()) == 500 * budget.estimation

"""The diagram of the packages, docs/house.svg, and the table of their size in CONTRIBUTING.md are up to date."""

from itertools import pairwise
from pathlib import Path

import pytest

from tools import house, metrics
from tools.imports import LAYERS, PEERS, uses

pytestmark = pytest.mark.docs


def test_diagram_is_current() -> None:
    assert house.DIAGRAM.read_text() == house.draw(), "docs/house.svg is out of date: run scripts/house"


def test_every_package_is_drawn() -> None:
    diagram = house.draw()
    assert all(f">{name}</text>" in diagram for names in LAYERS for name in names)


def test_every_import_is_an_arrow_or_follows_from_arrows() -> None:
    direct, arrows = house.grouped_uses(), house.arrows()
    reached = {name: {name} for name in direct}
    for _ in LAYERS:
        for start, end in arrows:
            reached[start] |= reached[end]
    assert all(others <= reached[name] for name, others in direct.items())


def test_a_peer_names_the_peers_that_it_imports() -> None:
    diagram = house.draw()
    for name in PEERS:
        assert all(f"imports {', '.join(sorted(uses()[name] & PEERS))}" in diagram for _ in uses()[name] & PEERS)


def test_packages_of_a_layer_do_not_overlap() -> None:
    boxes = house.boxes()
    for names in LAYERS:
        for left, right in pairwise(boxes[name] for name in names):
            assert left.x + left.width < right.x


def test_package_without_a_layer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.imports.LAYERS", LAYERS[1:])
    with pytest.raises(LookupError, match=f"has no {LAYERS[0][0]} in LAYERS"):
        house.draw()


def test_table_of_metrics_is_current() -> None:
    """Within a twentieth, so that a change of some lines does not need a new table."""
    written = metrics.read_table(metrics.PAGE.read_text())
    for name, value in metrics.measure_source().items():
        assert written[name] == pytest.approx(value, rel=0.05), f"{name} is now {value}: run scripts/house"


def test_table_has_every_command() -> None:
    written = metrics.read_table(metrics.PAGE.read_text())
    assert all(f"`{name}`: modules that run" in written for name in metrics.COMMANDS)


def test_function_lengths_count_the_lines_from_def_to_the_end(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text("@cached\ndef one():\n    return 1\n\n\nclass Two:\n    def method(self): ...\n")
    assert sorted(metrics.function_lengths(file)) == [1, 2]

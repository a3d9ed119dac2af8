"""The diagram of the packages, docs/house.svg, is up to date and complete."""

from itertools import pairwise

import pytest

from tools import house
from tools.imports import LAYERS, uses


def test_diagram_is_current() -> None:
    assert house.DIAGRAM.read_text() == house.draw(), "docs/house.svg is out of date: run scripts/house"


def test_every_package_is_drawn() -> None:
    diagram = house.draw()
    assert all(f">{name}</text>" in diagram for names in LAYERS for name in names)


def test_every_import_is_an_arrow_or_follows_from_arrows() -> None:
    arrows = house.arrows()
    reached = {name: {name} for names in LAYERS for name in names}
    for name in reached:
        reached[name].update(*(reached[end] for start, end in arrows if start == name))
    assert all(others <= reached[name] for name, others in uses().items())


def test_packages_of_a_layer_do_not_overlap() -> None:
    boxes = house.boxes()
    for names in LAYERS:
        for left, right in pairwise(boxes[name] for name in names):
            assert left.x + left.width < right.x


def test_package_without_a_layer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.imports.LAYERS", LAYERS[1:])
    with pytest.raises(LookupError, match=f"has no {LAYERS[0][0]} in LAYERS"):
        house.draw()

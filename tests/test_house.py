"""The picture of the house is the one that the imports draw."""

from itertools import pairwise

import pytest

from tools import house
from tools.imports import LAYERS, uses


def test_the_picture_is_current() -> None:
    assert house.PICTURE.read_text() == house.draw(), "docs/house.svg is out of date: run scripts/house"


def test_every_room_is_drawn() -> None:
    picture = house.draw()
    assert all(f">{name}</text>" in picture for names in LAYERS for name in names)


def test_every_import_is_an_arrow_or_follows_from_arrows() -> None:
    arrows = house.arrows()
    reached = {name: {name} for names in LAYERS for name in names}
    for name in reached:
        reached[name].update(*(reached[end] for start, end in arrows if start == name))
    assert all(others <= reached[name] for name, others in uses().items())


def test_rooms_of_a_floor_do_not_overlap() -> None:
    rooms = house.rooms()
    for names in LAYERS:
        for left, right in pairwise(rooms[name] for name in names):
            assert left.x + left.width < right.x


def test_a_room_without_a_floor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.imports.LAYERS", LAYERS[1:])
    with pytest.raises(LookupError, match=f"has no {LAYERS[0][0]} in LAYERS"):
        house.draw()

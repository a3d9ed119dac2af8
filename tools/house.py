"""docs/house.svg, drawn from the imports: floors are layers, rooms are packages, an arrow is an import."""

import ast
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tools.imports import LAYERS, ROOT, SOURCE, floor, uses

PICTURE = ROOT / "docs" / "house.svg"
WIDTH, MARGIN, ROOF, HEIGHT, STAIRS, GAP, WIDEST = 960, 28, 70, 78, 64, 16, 260
INKS = ("#7a4f9e", "#b8572b", "#2f6f9f", "#3d7a4c", "#8a6d1d")
"""The colour of a floor, the top one first, and of the arrows that leave it."""
STYLE = (
    ".name{font:600 15px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".text{font:11.5px system-ui,'Segoe UI',Helvetica,'DejaVu Sans',sans-serif;fill:#555}"
    ".use{fill:none;stroke-width:1.5;stroke-opacity:.6}"
)

Point = tuple[float, float]


class Room(NamedTuple):
    """A box of the picture, from its left upper corner."""

    name: str
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def ink(self) -> str:
        return INKS[(len(LAYERS) - 1 - floor(self.name)) % len(INKS)]


def draw() -> str:
    """The picture as SVG."""
    height = _top(0) + HEIGHT + 2 * MARGIN
    parts = [*_walls(), *_arrows(), *(_box(room) for room in rooms().values()), _legend(height - MARGIN + 4)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def arrows() -> list[tuple[str, str]]:
    """Who imports from whom, without what follows: cli to smoothing is left out where cli leads there by others."""
    direct = uses()
    reached: dict[str, set[str]] = {}
    for name in sorted(direct, key=floor):
        reached[name] = direct[name].union(*(reached.get(other, set()) for other in direct[name]))
    return [
        (name, other)
        for name, others in direct.items()
        for other in sorted(others)
        if not any(other in reached[between] for between in others)
    ]


def _top(number: int) -> float:
    """How far down a floor begins."""
    return MARGIN + ROOF + (len(LAYERS) - 1 - number) * (HEIGHT + STAIRS)


def rooms() -> dict[str, Room]:
    found = {}
    for number, names in enumerate(LAYERS):
        inside, count = WIDTH - 4 * MARGIN, len(names)
        width = min(WIDEST, (inside - (count - 1) * GAP) / count)
        gap = max(GAP, (inside - count * width) / (count + 1))
        left = (WIDTH - count * width - (count - 1) * gap) / 2
        for place, name in enumerate(names):
            found[name] = Room(name, left + place * (width + gap), _top(number), width)
    return found


def _walls() -> Iterator[str]:
    """A white sheet, the roof, and a pale band for each floor."""
    left, right, eaves = MARGIN, WIDTH - MARGIN, MARGIN + ROOF - 14
    yield '<rect width="100%" height="100%" rx="10" fill="#fff"/>'
    yield f'<path d="M{left - 12} {eaves}L{WIDTH / 2} 14L{right + 12} {eaves}Z" fill="#efe7f3" stroke="#cdbbd8"/>'
    yield f'<text class="name" x="{WIDTH / 2}" y="{eaves - 16}" text-anchor="middle" fill="#4a3560">radii</text>'
    for number in range(len(LAYERS)):
        y = _top(number) - 14
        yield f'<rect x="{left}" y="{y}" width="{right - left}" height="{HEIGHT + 28}" fill="#f6f5f2"/>'
    yield f'<path d="M{left} {eaves}V{_top(0) + HEIGHT + 14}H{right}V{eaves}" fill="none" stroke="#ddd8d0"/>'


def _box(room: Room) -> str:
    lines = textwrap.wrap(_caption(room.name), int((room.width - 16) / 6.3), max_lines=3, placeholder=" …")
    first = room.y + 43 - 7 * len(lines)
    frame = f'<rect x="{room.x:.1f}" y="{room.y:.1f}" width="{room.width:.1f}" height="{HEIGHT}" rx="6" fill="#fff"'
    at = f'x="{room.middle:.1f}" text-anchor="middle"'
    title = f'<text class="name" {at} y="{first:.1f}" fill="{room.ink}">{room.name}</text>'
    text = [f'<text class="text" {at} y="{first + 18 + 14 * row:.1f}">{line}</text>' for row, line in enumerate(lines)]
    return "\n".join([f'{frame} stroke="{room.ink}" stroke-width="1.5"/>', title, *text])


def _caption(name: str) -> str:
    """The first clause of a package's own docstring."""
    folder = SOURCE / name / "__init__.py"
    file = folder if folder.is_file() else SOURCE / f"{name}.py"
    text = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    for stop in ":;.":
        text = text.partition(stop)[0]
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")


def _arrows() -> Iterator[str]:
    placed, pairs = rooms(), arrows()
    for start, end in pairs:
        ends = sorted((other for name, other in pairs if name == start), key=lambda name: placed[name].middle)
        starts = sorted((name for name, other in pairs if other == end), key=lambda name: placed[name].middle)
        above, below = placed[start], placed[end]
        leaves = (_door(above, ends.index(end), len(ends)), above.y + HEIGHT)
        arrives = (_door(below, starts.index(start), len(starts)), below.y)
        yield _arrow([leaves, *_between(arrives[0], floor(start), floor(end)), arrives], above.ink)


def _door(room: Room, place: int, count: int) -> float:
    """Where on a wall the arrow of this place among so many begins or ends."""
    return room.x + room.width * (place + 1) / (count + 1)


def _between(goal: float, start: int, end: int) -> Iterator[Point]:
    """The way past the rooms of every floor between two floors."""
    for number in range(start - 1, end, -1):
        x = min(_passages(number), key=lambda x: abs(x - goal))
        yield from ((x, _top(number)), (x, _top(number) + HEIGHT))


def _passages(number: int) -> list[float]:
    """The middles of the gaps between the rooms of a floor, and of those beside them."""
    placed = [room for name, room in rooms().items() if floor(name) == number]
    edges = [MARGIN, *(edge for room in placed for edge in (room.x, room.x + room.width)), WIDTH - MARGIN]
    return [(left + right) / 2 for left, right in zip(edges[::2], edges[1::2], strict=True)]


def _arrow(way: list[Point], ink: str) -> str:
    x, y = way[-1]
    way = [*way[:-1], (x, y - 7)]
    curve = "".join(_bend(before, after) for before, after in pairwise(way))
    line = f'<path class="use" d="M{way[0][0]:.1f} {way[0][1]:.1f}{curve}" stroke="{ink}"/>'
    return f'{line}<path d="M{x - 4:.1f} {y - 8:.1f}h8l-4 8z" fill="{ink}"/>'


def _bend(before: Point, after: Point) -> str:
    """A curve that leaves and arrives upright."""
    (x1, y1), (x2, y2) = before, after
    half = (y1 + y2) / 2
    return f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}"


def _legend(y: float) -> str:
    text = "An arrow is an import. One that follows from others is left out; none goes up, none along a floor."
    return f'<text class="text" x="{WIDTH / 2}" y="{y}" text-anchor="middle">{text}</text>'


def main(file: Path = PICTURE) -> None:
    """Write the picture."""
    file.write_text(draw())


if __name__ == "__main__":
    main()

"""docs/house.svg, a diagram of the imports: rows are layers, boxes are packages, an arrow is an import."""

import ast
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tools.imports import LAYERS, ROOT, SOURCE, layer_of, uses

DIAGRAM = ROOT / "docs" / "house.svg"
WIDTH, MARGIN, HEADER, HEIGHT, SPACE, GAP, WIDEST = 960, 28, 70, 78, 64, 16, 260
INKS = ("#7a4f9e", "#b8572b", "#2f6f9f", "#3d7a4c", "#8a6d1d")
"""The colour of a layer, the top one first, and of the arrows that leave it."""
STYLE = (
    ".name{font:600 15px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".text{font:11.5px system-ui,'Segoe UI',Helvetica,'DejaVu Sans',sans-serif;fill:#555}"
    ".use{fill:none;stroke-width:1.5;stroke-opacity:.6}"
)

Point = tuple[float, float]


class Box(NamedTuple):
    """A package's rectangle, from its upper left corner."""

    name: str
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def ink(self) -> str:
        return INKS[(len(LAYERS) - 1 - layer_of(self.name)) % len(INKS)]


def draw() -> str:
    """The diagram as SVG."""
    height = _top(0) + HEIGHT + 2 * MARGIN
    parts = [*_background(), *_arrows(), *(_draw_box(box) for box in boxes().values()), _legend(height - MARGIN + 4)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def arrows() -> list[tuple[str, str]]:
    """The imports between packages, without those that follow from others by transitivity."""
    direct = uses()
    reached: dict[str, set[str]] = {}
    for name in sorted(direct, key=layer_of):
        reached[name] = direct[name].union(*(reached.get(other, set()) for other in direct[name]))
    return [
        (name, other)
        for name, others in direct.items()
        for other in sorted(others)
        if not any(other in reached[between] for between in others)
    ]


def _top(number: int) -> float:
    """The y coordinate of a layer."""
    return MARGIN + HEADER + (len(LAYERS) - 1 - number) * (HEIGHT + SPACE)


def boxes() -> dict[str, Box]:
    found = {}
    for number, names in enumerate(LAYERS):
        inside, count = WIDTH - 4 * MARGIN, len(names)
        width = min(WIDEST, (inside - (count - 1) * GAP) / count)
        gap = max(GAP, (inside - count * width) / (count + 1))
        left = (WIDTH - count * width - (count - 1) * gap) / 2
        for place, name in enumerate(names):
            found[name] = Box(name, left + place * (width + gap), _top(number), width)
    return found


def _background() -> Iterator[str]:
    """The white background, the title, and a pale band for each layer."""
    left, right, eaves = MARGIN, WIDTH - MARGIN, MARGIN + HEADER - 14
    yield '<rect width="100%" height="100%" rx="10" fill="#fff"/>'
    yield f'<path d="M{left - 12} {eaves}L{WIDTH / 2} 14L{right + 12} {eaves}Z" fill="#efe7f3" stroke="#cdbbd8"/>'
    yield f'<text class="name" x="{WIDTH / 2}" y="{eaves - 16}" text-anchor="middle" fill="#4a3560">radii</text>'
    for number in range(len(LAYERS)):
        y = _top(number) - 14
        yield f'<rect x="{left}" y="{y}" width="{right - left}" height="{HEIGHT + 28}" fill="#f6f5f2"/>'
    yield f'<path d="M{left} {eaves}V{_top(0) + HEIGHT + 14}H{right}V{eaves}" fill="none" stroke="#ddd8d0"/>'


def _draw_box(box: Box) -> str:
    lines = textwrap.wrap(_caption(box.name), int((box.width - 16) / 6.3), max_lines=3, placeholder=" …")
    first = box.y + 43 - 7 * len(lines)
    frame = f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{HEIGHT}" rx="6" fill="#fff"'
    at = f'x="{box.middle:.1f}" text-anchor="middle"'
    title = f'<text class="name" {at} y="{first:.1f}" fill="{box.ink}">{box.name}</text>'
    text = [f'<text class="text" {at} y="{first + 18 + 14 * row:.1f}">{line}</text>' for row, line in enumerate(lines)]
    return "\n".join([f'{frame} stroke="{box.ink}" stroke-width="1.5"/>', title, *text])


def _caption(name: str) -> str:
    """The first clause of a package's docstring."""
    folder = SOURCE / name / "__init__.py"
    file = folder if folder.is_file() else SOURCE / f"{name}.py"
    text = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    for stop in ":;.":
        text = text.partition(stop)[0]
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")


def _arrows() -> Iterator[str]:
    placed, pairs = boxes(), arrows()
    for start, end in pairs:
        ends = sorted((other for name, other in pairs if name == start), key=lambda name: placed[name].middle)
        starts = sorted((name for name, other in pairs if other == end), key=lambda name: placed[name].middle)
        above, below = placed[start], placed[end]
        leaves = (_port(above, ends.index(end), len(ends)), above.y + HEIGHT)
        arrives = (_port(below, starts.index(start), len(starts)), below.y)
        yield _arrow([leaves, *_between(arrives[0], layer_of(start), layer_of(end)), arrives], above.ink)


def _port(box: Box, place: int, count: int) -> float:
    """The x coordinate of the arrow of this place among `count` on one side of a box."""
    return box.x + box.width * (place + 1) / (count + 1)


def _between(goal: float, start: int, end: int) -> Iterator[Point]:
    """The points that lead past the boxes of every layer between two layers."""
    for number in range(start - 1, end, -1):
        x = min(_passages(number), key=lambda x: abs(x - goal))
        yield from ((x, _top(number)), (x, _top(number) + HEIGHT))


def _passages(number: int) -> list[float]:
    """The middles of the gaps between the boxes of a layer, and of those beside them."""
    placed = [box for name, box in boxes().items() if layer_of(name) == number]
    edges = [MARGIN, *(edge for box in placed for edge in (box.x, box.x + box.width)), WIDTH - MARGIN]
    return [(left + right) / 2 for left, right in zip(edges[::2], edges[1::2], strict=True)]


def _arrow(way: list[Point], ink: str) -> str:
    x, y = way[-1]
    way = [*way[:-1], (x, y - 7)]
    curve = "".join(_bend(before, after) for before, after in pairwise(way))
    line = f'<path class="use" d="M{way[0][0]:.1f} {way[0][1]:.1f}{curve}" stroke="{ink}"/>'
    return f'{line}<path d="M{x - 4:.1f} {y - 8:.1f}h8l-4 8z" fill="{ink}"/>'


def _bend(before: Point, after: Point) -> str:
    """A curve with vertical ends."""
    (x1, y1), (x2, y2) = before, after
    half = (y1 + y2) / 2
    return f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}"


def _legend(y: float) -> str:
    text = "An arrow is an import. One that follows from others is left out; none goes up or stays within a layer."
    return f'<text class="text" x="{WIDTH / 2}" y="{y}" text-anchor="middle">{text}</text>'


def main(file: Path = DIAGRAM) -> None:
    """Write the diagram."""
    file.write_text(draw())


if __name__ == "__main__":
    main()

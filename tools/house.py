"""docs/house.svg, a diagram of the imports: rows are layers, boxes are packages, an arrow is an import."""

import ast
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tools.imports import LAYERS, PEERS, ROOT, SOURCE, Graph, layer_of, uses
from tools.metrics import write_table

DIAGRAM = ROOT / "docs" / "house.svg"
WIDTH, MARGIN, HEADER, HEIGHT, SPACE, GAP, WIDEST = 1000, 28, 70, 84, 58, 16, 260
GROUP = "peers"
"""The name of the peers as one box: arrows from other layers end at their common frame."""
INKS = ("#7a4f9e", "#b8572b", "#2f6f9f", "#3d7a4c", "#8a6d1d")
"""The colour of a layer, the top one first, and of the arrows that leave it."""
STYLE = (
    ".name{font:600 15px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".text{font:11.5px system-ui,'Segoe UI',Helvetica,'DejaVu Sans',sans-serif;fill:#555}"
    ".uses{font:italic 11px system-ui,'Segoe UI',Helvetica,'DejaVu Sans',sans-serif;fill:#555}"
    ".use{fill:none;stroke-width:1.5;stroke-opacity:.6}"
)

Point = tuple[float, float]


class Box(NamedTuple):
    """The rectangle of a package or of the peers, from its upper left corner."""

    layer: int
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def ink(self) -> str:
        return INKS[(len(LAYERS) - 1 - self.layer) % len(INKS)]


def draw() -> str:
    """Return the diagram as SVG."""
    height = _top(0) + HEIGHT + 2 * MARGIN
    placed = boxes()
    packages = [_draw_package(name, placed[name]) for names in LAYERS for name in names]
    parts = [*_background(), *_draw_arrows(), _frame(placed[GROUP], 10), *packages, _legend(height - MARGIN + 4)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def arrows() -> list[tuple[str, str]]:
    """Return the imports between layers, without those that follow from others; the peers are one."""
    direct = grouped_uses()
    reached: Graph = {}
    for name in sorted(direct, key=_layer):
        reached[name] = direct[name].union(*(reached[other] for other in direct[name]))
    return [
        (name, other)
        for name, others in direct.items()
        for other in sorted(others)
        if not any(other in reached[between] for between in others)
    ]


def grouped_uses() -> Graph:
    """Return every package with those that it imports, the peers as one of the name GROUP."""
    grouped: Graph = {}
    for name, others in uses().items():
        node = GROUP if name in PEERS else name
        grouped.setdefault(node, set()).update(GROUP if other in PEERS else other for other in others)
    return {name: others - {name} for name, others in grouped.items()}


def boxes() -> dict[str, Box]:
    """Return the place of every package, and of the frame around the peers."""
    placed = {}
    for number, names in enumerate(LAYERS):
        inside, count = WIDTH - 4 * MARGIN, len(names)
        width = min(WIDEST, (inside - (count - 1) * GAP) / count)
        gap = max(GAP, (inside - count * width) / (count + 1))
        left = (WIDTH - count * width - (count - 1) * gap) / 2
        for place, name in enumerate(names):
            placed[name] = Box(number, left + place * (width + gap), _top(number), width, HEIGHT)
    peers = [placed[name] for name in PEERS]
    left, right, top = min(box.x for box in peers), max(box.x + box.width for box in peers), peers[0].y
    placed[GROUP] = Box(peers[0].layer, left - 9, top - 9, right - left + 18, HEIGHT + 18)
    return placed


def _layer(name: str) -> int:
    return layer_of(min(PEERS) if name == GROUP else name)


def _top(number: int) -> float:
    """Return the y coordinate of a layer."""
    return MARGIN + HEADER + (len(LAYERS) - 1 - number) * (HEIGHT + SPACE)


def _background() -> Iterator[str]:
    """Draw the white background, the title, and a pale band for each layer."""
    left, right, eaves = MARGIN, WIDTH - MARGIN, MARGIN + HEADER - 14
    yield '<rect width="100%" height="100%" rx="10" fill="#fff"/>'
    yield f'<path d="M{left - 12} {eaves}L{WIDTH / 2} 14L{right + 12} {eaves}Z" fill="#efe7f3" stroke="#cdbbd8"/>'
    yield f'<text class="name" x="{WIDTH / 2}" y="{eaves - 16}" text-anchor="middle" fill="#4a3560">radii</text>'
    for number in range(len(LAYERS)):
        y = _top(number) - 14
        yield f'<rect x="{left}" y="{y}" width="{right - left}" height="{HEIGHT + 28}" fill="#f6f5f2"/>'
    yield f'<path d="M{left} {eaves}V{_top(0) + HEIGHT + 14}H{right}V{eaves}" fill="none" stroke="#ddd8d0"/>'


def _frame(box: Box, corner: int) -> str:
    at = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height}" rx="{corner}"'
    return f'<rect {at} fill="#fff" stroke="{box.ink}" stroke-width="1.5"/>'


def _draw_package(name: str, box: Box) -> str:
    """Draw a package's box with its name, what it holds and, for a peer, the peers that it imports."""
    room = int((box.width - 12) / 6.2)
    lines = [("text", line) for line in textwrap.wrap(_caption(name), room, max_lines=3, placeholder=" …")]
    if name in PEERS and (siblings := sorted(uses()[name] & PEERS)):
        lines += [("uses", line) for line in textwrap.wrap(f"imports {', '.join(siblings)}", room)]
    first = box.y + HEIGHT / 2 + 4 - 7 * len(lines)
    at = f'x="{box.middle:.1f}" text-anchor="middle"'
    title = f'<text class="name" {at} y="{first:.1f}" fill="{box.ink}">{name}</text>'
    text = [
        f'<text class="{kind}" {at} y="{first + 17 + 14 * row:.1f}">{line}</text>'
        for row, (kind, line) in enumerate(lines)
    ]
    return "\n".join([_frame(box, 6), title, *text])


def _caption(name: str) -> str:
    """Return the first clause of a package's docstring."""
    folder = SOURCE / name / "__init__.py"
    file = folder if folder.is_file() else SOURCE / f"{name}.py"
    text = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    for stop in ":;.":
        text = text.partition(stop)[0]
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")


def _draw_arrows() -> Iterator[str]:
    placed, pairs = boxes(), arrows()
    for start, end in pairs:
        ends = sorted((other for name, other in pairs if name == start), key=lambda name: placed[name].middle)
        starts = sorted((name for name, other in pairs if other == end), key=lambda name: placed[name].middle)
        above, below = placed[start], placed[end]
        leaves = (_port(above, ends.index(end), len(ends)), above.bottom)
        arrives = (_port(below, starts.index(start), len(starts)), below.y)
        yield _arrow([leaves, *_between(arrives[0], above.layer, below.layer), arrives], above.ink)


def _port(box: Box, place: int, count: int) -> float:
    """Return the x coordinate of the arrow of this place among `count` on one side of a box."""
    return box.x + box.width * (place + 1) / (count + 1)


def _between(goal: float, start: int, end: int) -> Iterator[Point]:
    """Yield the points that lead past the boxes of every layer between two layers."""
    for number in range(start - 1, end, -1):
        x = min(_passages(number), key=lambda x: abs(x - goal))
        yield from ((x, _top(number)), (x, _top(number) + HEIGHT))


def _passages(number: int) -> list[float]:
    """Return the middles of the gaps between the boxes of a layer, and of those beside them."""
    names = [GROUP] if PEERS & set(LAYERS[number]) else LAYERS[number]
    placed = [boxes()[name] for name in names]
    edges = [MARGIN, *(edge for box in placed for edge in (box.x, box.x + box.width)), WIDTH - MARGIN]
    return [(left + right) / 2 for left, right in zip(edges[::2], edges[1::2], strict=True)]


def _arrow(way: list[Point], ink: str) -> str:
    x, y = way[-1]
    way = [*way[:-1], (x, y - 7)]
    curve = "".join(_bend(before, after) for before, after in pairwise(way))
    line = f'<path class="use" d="M{way[0][0]:.1f} {way[0][1]:.1f}{curve}" stroke="{ink}"/>'
    return f'{line}<path d="M{x - 4:.1f} {y - 8:.1f}h8l-4 8z" fill="{ink}"/>'


def _bend(before: Point, after: Point) -> str:
    """Draw a curve with vertical ends."""
    (x1, y1), (x2, y2) = before, after
    half = (y1 + y2) / 2
    return f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}"


def _legend(y: float) -> str:
    text = (
        "An arrow is an import. One that follows from others is left out. None goes up; "
        "only the packages in the frame import from their own layer."
    )
    return f'<text class="text" x="{WIDTH / 2}" y="{y}" text-anchor="middle">{text}</text>'


def main(file: Path = DIAGRAM) -> None:
    """Draw the diagram, and write the table of metrics into CONTRIBUTING.md."""
    file.write_text(draw())
    write_table()


if __name__ == "__main__":
    main()

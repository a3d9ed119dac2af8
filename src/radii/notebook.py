"""Make HTML for notebooks: tables, and curves as SVG. Both take the colours of the notebook, light or dark."""

from collections.abc import Iterable, Sequence
from html import escape

Point = tuple[float, float]

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 10, 36
COLOURS = ("#2a7fc9", "#d1661f", "#12946f")
"""The colours of the curves, for light and dark pages. Further curves are not drawn."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table as HTML with escaped text; the head may be empty."""
    title = f'<caption style="text-align: left; caption-side: top">{_text(caption)}</caption>' if caption else ""
    top = f"<thead><tr>{_cells('th', head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f"<table>{title}{top}<tbody>{body}</tbody></table>"


def curves(lines: Sequence[tuple[str, Sequence[Point]]], title: str) -> str:
    """Draw up to three named step curves, per cent over the radius; return an empty text if they have no point.

    A step has the value of its right end: nothing is drawn above what is known.
    """
    shown = [(name, points) for name, points in lines if points][: len(COLOURS)]
    end = max((point[0] for _, points in shown for point in points), default=0.0)
    if not shown or not end:
        return ""
    drawn = "".join(
        f'<path d="{_steps(points, end)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for (_, points), colour in zip(shown, COLOURS, strict=False)
    )
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{_text(title)}"'
    style = "max-width: 100%; height: auto; font: 11px sans-serif; display: block"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {frame} style="{style}">{_axes(end, title)}{drawn}</svg>'
    if len(shown) == 1:
        return svg
    names = (
        f'<span style="margin-right: 1em"><span style="color: {colour}">■</span> {_text(name)}</span>'
        for (name, _), colour in zip(shown, COLOURS, strict=False)
    )
    return svg + f"<div>{''.join(names)}</div>"


def _steps(points: Sequence[Point], end: float) -> str:
    (x, y), *rest = points
    return f"M{_x(x, end):.1f} {_y(y):.1f}" + "".join(f"V{_y(y):.1f}H{_x(x, end):.1f}" for x, y in rest)


def _axes(end: float, title: str) -> str:
    grid = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(value):.1f}" y2="{_y(value):.1f}" stroke="currentColor" '
        f'stroke-opacity=".2"/><text x="{LEFT - 6}" y="{_y(value) + 4:.1f}" text-anchor="end" '
        f'fill="currentColor">{value}</text>'
        for value in (0, 50, 100)
    )
    ticks = "".join(
        f'<text x="{_x(value, end):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle" '
        f'fill="currentColor">{value:.3g}</text>'
        for value in (0.0, end / 2, end)
    )
    middle = (LEFT + WIDTH - RIGHT) / 2
    name = f'<text x="{middle:.0f}" y="{HEIGHT - 4}" text-anchor="middle" fill="currentColor">{_text(title)}</text>'
    return grid + ticks + name


def _x(value: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / end


def _y(value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / 100


def _cells(kind: str, values: Iterable[object]) -> str:
    return "".join(f'<{kind} style="text-align: left">{_text(value)}</{kind}>' for value in values)


def _text(value: object) -> str:
    """Return a value as HTML text, with control characters escaped."""
    text = str(value)
    return escape("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))

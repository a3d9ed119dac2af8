"""Pieces of a page: tables, cards and sections."""

from collections.abc import Sequence

from radii.reports.chart import text
from radii.reports.tables import Cell, Table


def section(title: str, content: str, words: str = "") -> str:
    """A part of the page under its heading; `words` say what it shows."""
    said = f'\n<p class="quiet">{words}</p>' if words else ""
    return f"<h2>{title}</h2>{said}\n{content}"


def card(content: str, name: str, kind: str = "") -> str:
    """A frame that scrolls sideways, by keyboard too, where its content is wider than the page."""
    look = f"card {kind}".strip()
    return f'<div class="{look}" role="region" tabindex="0" aria-label="{text(name)}">\n{content}\n</div>'


def table(content: Table, *, dots: bool = False, sortable: bool = True) -> str:
    """A table, its rows after a dot in the colour of their curve where `dots` is set; a script can sort its rows."""
    head = "".join(f'<th scope="col">{text(title)}</th>' if title else "<td></td>" for title in content.head)
    rows = "\n".join(_row(row, number if dots else None) for number, row in enumerate(content.rows))
    look = ' class="sortable"' if sortable else ""
    return f"<table{look}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _row(row: Sequence[Cell], number: int | None) -> str:
    dot = "" if number is None else f'<span class="dot" style="background: var(--c{number})"></span>'
    own = "" if number is None else f' class="run-{number}"'
    return f'<tr{own}><th scope="row">{dot}{text(row[0].text)}</th>{"".join(map(_cell, row[1:]))}</tr>'


def _cell(cell: Cell) -> str:
    content = f"<b>{text(cell.text)}</b>" if cell.best else text(cell.text)
    if cell.share is None:
        return f"<td>{content}</td>"
    return f'<td class="share" style="--share: {cell.share:.3f}">{content}<small>{text(cell.interval)}</small></td>'

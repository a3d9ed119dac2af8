"""The page of a report: one HTML file that needs nothing else, and the same in Markdown."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from radii.report import curves, formats, protocol, tables
from radii.report.entries import Entry
from radii.report.notes import notes
from radii.report.summary import Summary, Value, shown
from radii.report.tables import Cell, Table
from radii.report.text import markdown_text, plain
from radii.report.transfer import transfers

TITLE = "Certified accuracy"
DARK_PALETTE = ("#58a9ec", "#f08a4b", "#3fc49b", "#e07fc4", "#e3b341", "#9bd0f5", "#a9b2bf")
"""The colours of curves.PALETTE on a dark page, in the same order."""
FIGURES = {"curves": "Certified accuracy over the radius", "times": "Seconds of training per epoch"}


def html(entries: Sequence[Entry], svgs: Mapping[str, bytes], sections: Sequence[tuple[str, Table]] = ()) -> str:
    """The page: tables and figures inline, no script, no outside request; `sections` are further tables."""
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    remarks = "".join(f"<li>{_text(note)}</li>" for note in notes(entries))
    return template.substitute(
        title=TITLE,
        claim=_text(claim(entries)),
        light=_variables(curves.PALETTE),
        dark=_variables(DARK_PALETTE),
        tiles=_tiles(entries),
        best=_best_in_words(entries),
        accuracies=_table(tables.accuracies(entries), dots=True),
        notes=f'<ul class="quiet">{remarks}</ul>' if remarks else "",
        figures="\n".join(_figure(FIGURES[name], svg.decode()) for name, svg in svgs.items()),
        transfers=(_section("Transfer", _table(students)) if (students := transfers(entries)) else "")
        + "".join(_section(_text(title), _table(table)) for title, table in sections),
        facts=_table(tables.facts_table(entries)),
    )


def markdown(entries: Sequence[Entry], figures: Iterable[str], sections: Sequence[tuple[str, Table]] = ()) -> str:
    """The same tables for a README or a pull request; `figures` are files beside it."""
    accuracies, students = tables.accuracies(entries), transfers(entries)
    parts = [
        f"# {TITLE}",
        claim(entries),
        "Per cent of all images certified at each radius, rounded down; ACR is the average certified radius."
        + _best_in_words(entries),
        formats.markdown(accuracies).strip(),
        "\n".join(f"- {markdown_text(note)}" for note in notes(entries)),
        "\n".join(f"![{FIGURES[Path(file).stem]}]({file})" for file in figures),
        f"## Transfer\n\n{formats.markdown(students).strip()}" if students else "",
        *(f"## {markdown_text(title)}\n\n{formats.markdown(table).strip()}" for title, table in sections),
        "## 95 % intervals over the choice of test images",
        formats.markdown(tables.intervals(accuracies)).strip(),
        "## How these numbers were computed",
        formats.markdown(tables.facts_table(entries)).strip(),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def claim(entries: Sequence[Entry]) -> str:
    """The meaning of a certificate in one sentence, with the largest of the failure probabilities."""
    failures = [entry.certificates.failure for entry in entries]
    known = [failure for failure in failures if failure is not None]
    sure = f", and such a proof fails with a probability of at most {max(known)} per image" if known else ""
    return (
        "A certificate is a proof: no change of the image that is shorter, in l2, than the radius can change "
        f"the smoothed classifier’s answer{sure if len(known) == len(failures) else ''}.{_rounding(entries)}"  # noqa: RUF001
    )


def _rounding(entries: Sequence[Entry]) -> str:
    """What noise in floating point cannot promise; nothing where all noise is on a grid."""
    if all(entry.certificates.header.get("noise", {}).get("name") == "grid" for entry in entries):
        return ""
    return (
        " It holds for noise in exact arithmetic: drawn in float32, it is no promise about a base classifier that was "
        "built to look at the last bits of its input; grid noise is."
    )


def _best_in_words(entries: Sequence[Entry]) -> str:
    return " The best of a column is bold." if protocol.comparable([entry.certificates for entry in entries]) else ""


TILES: Mapping[str, tuple[Callable[[Summary], Value | None], int, int, str]] = {
    "Clean accuracy": (lambda each: each.known(0.0), 1, 2, " %"),
    "Certified at radius 0.25": (lambda each: each.known(0.25), 1, 2, " %"),
    "Certified at radius 0.50": (lambda each: each.known(0.5), 1, 2, " %"),
    "Average certified radius": (lambda each: each.known_acr, 4, 0, ""),
}
"""The headlines: what each shows, its digits, by how many its point is shifted, and its unit."""


def _tiles(entries: Sequence[Entry]) -> str:
    """The headlines of one input, or the best of several; none of several that do not compare."""
    if len(entries) > 1 and not protocol.comparable([entry.certificates for entry in entries]):
        return ""
    tiles = "\n".join(_tile(entries, what) for what in TILES)
    return f'<dl class="tiles">\n{tiles}\n</dl>'


def _tile(entries: Sequence[Entry], what: str) -> str:
    value, digits, shift, unit = TILES[what]
    top = value(entries[0].summary) if len(entries) == 1 else tables.best([each.summary for each in entries], value)
    text = shown(top, digits, shift) + (f"<small>{unit}</small>" if top else "")
    holders = [entry.name for entry in entries if value(entry.summary) == top]
    who = _text(_few(entries) if len(entries) == 1 else ", ".join(holders) if len(holders) < len(entries) else "")
    return f'<div class="tile"><dt>{what}</dt><dd class="value">{text}</dd><dd class="who">{who}</dd></div>'


def _few(entries: Sequence[Entry]) -> str:
    images = entries[0].summary.images
    return f"on {images} image{'s' * (images > 1)} only" if images < protocol.FEWEST_IMAGES else ""


def _text(text: str) -> str:
    """Text as HTML that shows it as it is."""
    return escape(plain(text))


def _section(title: str, content: str) -> str:
    return f'<h2>{title}</h2>\n<div class="card facts">{content}</div>'


def _table(table: Table, *, dots: bool = False) -> str:
    head = "".join(f'<th scope="col">{_text(text)}</th>' for text in table.head)
    rows = "\n".join(_row(row, number if dots else None) for number, row in enumerate(table.rows))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _row(row: Sequence[Cell], number: int | None) -> str:
    """A row, its name after a dot in the colour of curve `number`."""
    colour = None if number is None else number % len(curves.PALETTE)
    dot = "" if colour is None else f'<span class="dot" style="background: var(--c{colour})"></span>'
    return f'<tr><th scope="row">{dot}{_text(row[0].text)}</th>{"".join(map(_cell, row[1:]))}</tr>'


def _cell(cell: Cell) -> str:
    text = f"<b>{_text(cell.text)}</b>" if cell.best else _text(cell.text)
    if cell.share is None:
        return f"<td>{text}</td>"
    return f'<td class="share" style="--share: {cell.share:.3f}">{text}<small>{_text(cell.interval)}</small></td>'


def _figure(title: str, svg: str) -> str:
    """A drawn figure that takes the colours of the page, light or dark."""
    drawing = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
    drawing = re.sub(r' xmlns(:xlink)?="[^"]*"', "", drawing)
    named = {curves.INK: "ink", curves.MUTED: "muted", curves.GRID: "grid", curves.PAPER: "paper"}
    for colour, name in (named | {colour: f"c{number}" for number, colour in enumerate(curves.PALETTE)}).items():
        drawing = drawing.replace(colour, f"var(--{name})")
    return f'<figure class="card">\n{drawing}</figure>'


def _variables(palette: Sequence[str]) -> str:
    return " ".join(f"--c{number}: {colour};" for number, colour in enumerate(palette))

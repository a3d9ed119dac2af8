"""The page of a report: one HTML file that needs nothing else, and its plain sister in Markdown."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from radii.report import curves, tables
from radii.report.entries import Entry
from radii.report.facts import notes
from radii.report.summary import Summary, down
from radii.report.tables import Cell, Table
from radii.report.transfer import transfers

TITLE = "Certified accuracy"
DARK_PALETTE = ("#58a9ec", "#f08a4b", "#3fc49b", "#e07fc4", "#e3b341", "#9bd0f5", "#a9b2bf")
"""The colours of curves.PALETTE on a dark page, one for one."""
FIGURES = {"curves": "Certified accuracy over the radius", "times": "Seconds of training per epoch"}


def html(entries: Sequence[Entry], svgs: Mapping[str, bytes]) -> str:
    """The page: tables and figures inline, no script, no outside request."""
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    remarks = "".join(f"<li>{escape(note)}</li>" for note in notes(entries))
    return template.substitute(
        title=TITLE,
        claim=escape(claim(entries)),
        light=_variables(curves.PALETTE),
        dark=_variables(DARK_PALETTE),
        tiles="\n".join(_tiles(entries)),
        accuracies=_table(tables.accuracies(entries), dots=True),
        notes=f'<ul class="quiet">{remarks}</ul>' if remarks else "",
        figures="\n".join(_figure(FIGURES[name], svg.decode()) for name, svg in svgs.items()),
        transfers=_section("Transfer", _table(students)) if (students := transfers(entries)) else "",
        facts=_table(tables.facts_table(entries)),
    )


def markdown(entries: Sequence[Entry], figures: Iterable[str]) -> str:
    """The same tables for a README or a pull request; `figures` are files beside it."""
    accuracies, students = tables.accuracies(entries), transfers(entries)
    parts = [
        f"# {TITLE}",
        claim(entries),
        "Per cent of all images certified at each radius, rounded down; ACR is the average certified radius.",
        tables.markdown(accuracies).strip(),
        "\n".join(f"- {note}" for note in notes(entries)),
        "\n".join(f"![{FIGURES[Path(file).stem]}]({file})" for file in figures),
        f"## Transfer\n\n{tables.markdown(students).strip()}" if students else "",
        "## 95 % intervals over the choice of test images",
        tables.markdown(tables.intervals(accuracies)).strip(),
        "## How these numbers came about",
        tables.markdown(tables.facts_table(entries)).strip(),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def claim(entries: Sequence[Entry]) -> str:
    """What a certificate says, in one sentence."""
    failures = {entry.certificates.failure for entry in entries}
    failure = failures.pop() if len(failures) == 1 else None
    sure = "" if failure is None else f", and such a proof fails with a probability of at most {failure:g} per image"
    return (
        "A certificate is a proof: no change of the picture that is shorter, in l2, than the radius can change "
        f"the smoothed classifier’s answer{sure}."  # noqa: RUF001
    )


def _tiles(entries: Sequence[Entry]) -> list[str]:
    def tile(what: str, value: Callable[[Summary], float], digits: int, shift: int, unit: str) -> str:
        top = max(value(entry.summary) for entry in entries)
        holders = [entry.name for entry in entries if value(entry.summary) == top]
        who = escape(", ".join(holders)) if len(holders) < len(entries) else ""
        shown = f'<dd class="value">{down(top, digits, shift)}<small>{unit}</small></dd>'
        return f'<div class="tile"><dt>{what}</dt>{shown}<dd class="who">{who}</dd></div>'

    return [
        tile("Clean accuracy", lambda each: each.clean.value, 1, 2, " %"),
        tile("Certified at radius 0.25", lambda each: each.at(0.25).value, 1, 2, " %"),
        tile("Certified at radius 0.50", lambda each: each.at(0.5).value, 1, 2, " %"),
        tile("Average certified radius", lambda each: each.acr, 4, 0, ""),
    ]


def _section(title: str, content: str) -> str:
    return f'<h2>{title}</h2>\n<div class="card facts">{content}</div>'


def _table(table: Table, *, dots: bool = False) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.head)
    rows = "\n".join(_row(row, number if dots else None) for number, row in enumerate(table.rows))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _row(row: Sequence[Cell], number: int | None) -> str:
    """A row, its name after a dot in the colour of curve `number`."""
    colour = None if number is None else number % len(curves.PALETTE)
    dot = "" if colour is None else f'<span class="dot" style="background: var(--c{colour})"></span>'
    return f'<tr><th scope="row">{dot}{escape(row[0].text)}</th>{"".join(map(_cell, row[1:]))}</tr>'


def _cell(cell: Cell) -> str:
    text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
    if cell.share is None:
        return f"<td>{text}</td>"
    return f'<td class="share" style="--share: {cell.share:.3f}">{text}<small>{escape(cell.interval)}</small></td>'


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

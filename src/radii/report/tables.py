"""The tables of a report, and the same tables as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

from radii.report.entries import Entry
from radii.report.facts import UNKNOWN, facts
from radii.report.summary import Summary, down, radii_of, thinned, up

MOST_COLUMNS = 16
"""Radii that a page shows; the CSV has them all."""
MOST_ABREAST = 4
"""Inputs whose facts stand side by side; more stand below each other."""


class Cell(NamedTuple):
    """A value as text, with what a page may show of it besides."""

    text: str
    best: bool = False
    """Whether it is the best of its column."""
    interval: str = ""
    share: float | None = None
    """The value between 0 and 1, where it is a share of the images."""


class Table(NamedTuple):
    """A table of text; the first column says what a row is about."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def accuracies(entries: Sequence[Entry]) -> Table:
    """Certified accuracy in per cent at each radius, ACR and abstentions; rounded down, abstentions up."""
    measured = [entry.summary for entry in entries]
    radii = thinned(radii_of(measured), MOST_COLUMNS)
    columns = [
        [Cell(entry.name) for entry in entries],
        [Cell(_sigma(entry.certificates.sigma)) for entry in entries],
        _column(measured, lambda each: each.acr, lambda each: Cell(down(each.acr, 4))),
        *(_column(measured, *_certified(radius)) for radius in radii),
        [Cell(up(each.abstained.value, 1, 2)) for each in measured],
    ]
    head = ["", "σ", "ACR", *(f"{radius:.2f}" for radius in radii), "abstains"]  # noqa: RUF001
    return Table(head, list(zip(*columns, strict=True)))


def _certified(radius: float) -> tuple[Callable[[Summary], float], Callable[[Summary], Cell]]:
    def cell(each: Summary) -> Cell:
        share, (lower, upper) = each.at(radius).value, each.interval(radius)
        return Cell(down(share, 1, 2), interval=f"{down(lower, 1, 2)}–{up(upper, 1, 2)}", share=share)  # noqa: RUF001

    return lambda each: each.at(radius).value, cell


def _column(
    measured: Sequence[Summary], value: Callable[[Summary], float], cell: Callable[[Summary], Cell]
) -> list[Cell]:
    best = max(map(value, measured))
    marked = len(measured) > 1 and best > 0
    return [cell(each)._replace(best=marked and value(each) == best) for each in measured]


def intervals(table: Table) -> Table:
    """The 95 % intervals of a table's columns that have any."""
    kept = [0, *(number for number, cell in enumerate(table.rows[0]) if cell.interval)]
    rows = [[Cell(row[0].text), *(Cell(row[number].interval) for number in kept[1:])] for row in table.rows]
    return Table([table.head[number] for number in kept], rows)


def facts_table(entries: Sequence[Entry]) -> Table:
    """How each input came about, a column an input where they fit; what nobody recorded is left out."""
    known = [{"": entry.name} | facts(entry) for entry in entries]
    kept = [name for name in known[0] if any(each[name] != UNKNOWN for each in known)]
    lines = [[name, *(each[name] for each in known)] for name in kept]
    if len(entries) > MOST_ABREAST:
        lines = [list(line) for line in zip(*lines, strict=True)]
    return Table(lines[0], [[Cell(text) for text in line] for line in lines[1:]])


def markdown(table: Table) -> str:
    """The table as Markdown, the best of a column in bold."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

    rows = [line([f"**{cell.text}**" if cell.best else cell.text for cell in row]) for row in table.rows]
    rule = "|" + "|".join([" --- ", *(" ---: " for _ in table.head[1:])]) + "|"
    return "\n".join([line(table.head), rule, *rows]) + "\n"


def latex(table: Table) -> str:
    r"""The table as a LaTeX tabular for \usepackage{booktabs}, the best of a column in bold."""

    def line(texts: Sequence[str]) -> str:
        return " & ".join(texts) + r" \\"

    rows = [
        line([rf"\textbf{{{_escaped(cell.text)}}}" if cell.best else _escaped(cell.text) for cell in row])
        for row in table.rows
    ]
    head = [rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}", r"\toprule", line([*map(_escaped, table.head)])]
    return "\n".join([*head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]) + "\n"


def csv_text(entries: Sequence[Entry]) -> str:
    """One row per input, shares and radii as fractions with six digits, rounded down."""
    radii = radii_of([entry.summary for entry in entries])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "sigma", "images", "acr", "clean", "abstained", *(f"r{radius:.2f}" for radius in radii)])
    for entry in entries:
        each, sigma = entry.summary, entry.certificates.sigma
        shares = [down(each.at(radius).value, 6) for radius in radii]
        clean, abstained = down(each.clean.value, 6), up(each.abstained.value, 6)
        writer.writerow([entry.name, sigma, each.images, down(each.acr, 6), clean, abstained, *shares])
    return text.getvalue()


def _sigma(sigma: float | None) -> str:
    return UNKNOWN if sigma is None else f"{sigma:.2f}" if round(sigma, 2) == sigma else repr(sigma)


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "σ": r"$\sigma$"}  # noqa: RUF001
    special |= {character: "\\" + character for character in "&%$#_{}"} | {"–": "--", "±": r"$\pm$"}  # noqa: RUF001
    return "".join(special.get(character, character) for character in text)

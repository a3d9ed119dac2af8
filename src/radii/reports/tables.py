"""A table of text, and functions that write it as Markdown, LaTeX, CSV, HTML or text for a terminal."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from radii.reports.text import UNKNOWN, csv_cell, html_text, latex_text, markdown_text, plain

NUMBER = re.compile(r"[≥+\- ]*[\d.,]+( ± [\d.]+)?( [%×])?")  # noqa: RUF001


class Cell(NamedTuple):
    """A value as text, with its interval and share for the page."""

    text: str
    best: bool = False
    """Whether it is the best of its column."""
    interval: str = ""
    share: float | None = None
    """The value between 0 and 1, if it is a share of the images."""


class Table(NamedTuple):
    """A table of text; the first column says what a row is about."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def text_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table of cells that have text only."""
    return Table(head, [[Cell(text) for text in row] for row in rows])


def markdown(table: Table) -> str:
    """Write a table as Markdown, the best of a column in bold."""

    def line(texts: Iterable[str]) -> str:
        return "| " + " | ".join(texts) + " |"

    def content(cell: Cell) -> str:
        return f"**{markdown_text(cell.text)}**" if cell.best else markdown_text(cell.text)

    rule = "|" + "|".join([" --- ", *(" ---: " for _ in table.head[1:])]) + "|"
    rows = [line(map(content, row)) for row in table.rows]
    return "\n".join([line(map(markdown_text, table.head)), rule, *rows]) + "\n"


def latex(table: Table, remark: str = "") -> str:
    r"""Write a table as a tabular for \usepackage{booktabs}, the best of a column in bold, a remark below."""

    def line(texts: Iterable[str]) -> str:
        return " & ".join(texts) + r" \\"

    def content(cell: Cell) -> str:
        return rf"\textbf{{{latex_text(cell.text)}}}" if cell.best else latex_text(cell.text)

    columns = len(table.head)
    head = [rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}", r"\toprule", line(map(latex_text, table.head))]
    rows = [line(map(content, row)) for row in table.rows]
    last = [rf"\multicolumn{{{columns}}}{{l}}{{\footnotesize {latex_text(remark)}}} \\"] if remark else []
    return "\n".join([*head, r"\midrule", *rows, r"\bottomrule", *last, r"\end{tabular}"]) + "\n"


def csv_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows of text as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([csv_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def html(table: Table, *, dots: bool = False, sortable: bool = False, words: bool = False) -> str:
    """Write a table as HTML.

    With `dots`, a dot in the colour of its curve precedes each row. With `sortable`, the script of the page can sort
    the rows. With `words`, columns of words are marked, to be aligned left.
    """
    marks = [' class="words"' if words and has_words else "" for has_words in _columns_of_words(table)]

    def data_cell(cell: Cell, mark: str, title: str) -> str:
        content = f"<b>{html_text(cell.text)}</b>" if cell.best else html_text(cell.text)
        # On a narrow screen a row is a block, and every value has its title beside it.
        label = f' data-label="{html_text(title)}"' if title else ""
        if cell.share is None:
            return f"<td{label}{mark}>{content}</td>"
        interval = f"<small>{html_text(cell.interval)}</small>"
        return f'<td{label} class="share" style="--share: {cell.share:.3f}">{content}{interval}</td>'

    def line(number: int, row: Sequence[Cell]) -> str:
        dot = f'<span class="dot" style="background: var(--c{number})"></span>' if dots else ""
        start = f'<tr class="run-{number}">' if dots else "<tr>"
        cells = "".join(map(data_cell, row[1:], marks[1:], table.head[1:]))
        return f'{start}<th scope="row"{marks[0]}>{dot}{html_text(row[0].text)}</th>{cells}</tr>'

    titles = zip(table.head, marks, strict=True)
    head = "".join(f'<th scope="col"{mark}>{html_text(title)}</th>' if title else "<td></td>" for title, mark in titles)
    rows = "\n".join(line(number, row) for number, row in enumerate(table.rows))
    start = '<table class="sortable">' if sortable else "<table>"
    return f"{start}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def terminal(table: Table) -> str:
    """Write a table as text for a terminal, numbers aligned right and words left."""
    texts = [[*map(plain, table.head)], *([plain(cell.text) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    align = [str.ljust if has_words else str.rjust for has_words in _columns_of_words(table)]
    head, *rows = [
        "  ".join(pad(text, width) for pad, text, width in zip(align, row, widths, strict=True)).rstrip()
        for row in texts
    ]
    return "\n".join([head, "  ".join("-" * width for width in widths), *rows]) + "\n"


def _columns_of_words(table: Table) -> list[bool]:
    """Return for each column whether it holds words; the first one always does."""
    columns = zip(*([cell.text for cell in row] for row in table.rows), strict=True)
    words = [not all(text in ("", UNKNOWN) or NUMBER.fullmatch(text) for text in texts) for texts in columns]
    return [True, *words[1:]] if words else [True] * len(table.head)

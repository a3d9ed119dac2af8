"""A table of text, and its writers: Markdown, LaTeX, CSV and HTML."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from radii.reports.text import csv_cell, html_text, latex_text, markdown_text


class Cell(NamedTuple):
    """A value as text, with what a page shows beside it."""

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


def markdown(table: Table) -> str:
    """Write a table as Markdown, the best of a column in bold."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(texts) + " |"

    def cell(cell: Cell) -> str:
        return f"**{markdown_text(cell.text)}**" if cell.best else markdown_text(cell.text)

    rule = "|" + "|".join([" --- ", *(" ---: " for _ in table.head[1:])]) + "|"
    rows = [line([*map(cell, row)]) for row in table.rows]
    return "\n".join([line([*map(markdown_text, table.head)]), rule, *rows]) + "\n"


def latex(table: Table, remark: str = "") -> str:
    r"""Write a table as a tabular for \usepackage{booktabs}, the best of a column in bold, a remark below."""

    def line(texts: Sequence[str]) -> str:
        return " & ".join(texts) + r" \\"

    def cell(cell: Cell) -> str:
        return rf"\textbf{{{latex_text(cell.text)}}}" if cell.best else latex_text(cell.text)

    columns = len(table.head)
    head = [rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}", r"\toprule", line([*map(latex_text, table.head)])]
    rows = [line([*map(cell, row)]) for row in table.rows]
    last = [rf"\multicolumn{{{columns}}}{{l}}{{\footnotesize {latex_text(remark)}}} \\"] if remark else []
    return "\n".join([*head, r"\midrule", *rows, r"\bottomrule", *last, r"\end{tabular}"]) + "\n"


def csv_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows of text as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([csv_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def html(table: Table, *, dots: bool = False, sortable: bool = True) -> str:
    """Write a table as HTML; `dots` show the colour of each row's curve, the script can sort a `sortable` one."""

    def cell(cell: Cell) -> str:
        content = f"<b>{html_text(cell.text)}</b>" if cell.best else html_text(cell.text)
        if cell.share is None:
            return f"<td>{content}</td>"
        interval = f"<small>{html_text(cell.interval)}</small>"
        return f'<td class="share" style="--share: {cell.share:.3f}">{content}{interval}</td>'

    def line(number: int, row: Sequence[Cell]) -> str:
        dot = f'<span class="dot" style="background: var(--c{number})"></span>' if dots else ""
        start = f'<tr class="run-{number}">' if dots else "<tr>"
        return f'{start}<th scope="row">{dot}{html_text(row[0].text)}</th>{"".join(map(cell, row[1:]))}</tr>'

    head = "".join(f'<th scope="col">{html_text(title)}</th>' if title else "<td></td>" for title in table.head)
    rows = "\n".join(line(number, row) for number, row in enumerate(table.rows))
    start = '<table class="sortable">' if sortable else "<table>"
    return f"{start}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"

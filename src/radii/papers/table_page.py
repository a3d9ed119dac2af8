"""A paper's table beside what was measured here, as Markdown, LaTeX, CSV and one HTML page."""

import csv
import io
from collections.abc import Iterator, Sequence
from decimal import Decimal
from html import escape
from pathlib import Path
from string import Template

from radii import disk
from radii.papers.table import PaperTable
from radii.papers.table_figure import figures
from radii.papers.table_lines import Group, Results, budget, lines, made, numbered
from radii.papers.table_runs import BASELINE, Result
from radii.papers.table_savings import savings
from radii.papers.table_text import has_words
from radii.papers.table_values import as_precise, difference, radius_of, shift_of, value
from radii.reports import curves, formats
from radii.reports.summary import UNKNOWN
from radii.reports.tables import Table
from radii.reports.text import csv_cell, markdown_text, plain

BUDGET = (
    "A number is measured here at the budget that is stated with it, on the test images that are stated with it: it is "
    "the paper's only where the budget is. Values are rounded down. A difference is here minus reported, with a 95 % "
    "interval over the choice of test images, and of seeds where there are several, and the rounding of the printed "
    "number; it does not have the spread of a single training."
)
COLUMNS = (
    *("table", "row", "column", "unit", "reported", "here", "deviation", "lower", "upper", "difference"),
    *("difference_lower", "difference_upper", "budget", "seeds", "from"),
)
PERCENT, FRACTION = "percent", "fraction"
"""Units of accuracies; the column of other numbers names what they are."""


def write(table: PaperTable, results: Results, out: Path) -> Path:
    """Write the table to a folder in every format; returns the page."""
    svgs = {name: curves.image(figure, "svg") for name, figure in figures(table, results).items()}
    written: dict[str, str | bytes] = {
        f"{table.name}.md": markdown(table, results, list(svgs)),
        f"{table.name}.csv": csv_text(table, results),
        f"{table.name}.tex": latex(table, results),
        **{f"{table.name}-{name}.svg": svg for name, svg in svgs.items()},
        f"{table.name}.html": html(table, results, svgs),
    }
    disk.make_folder(out)
    for name, content in written.items():
        disk.write(out / name, content)
    return out / f"{table.name}.html"


def sections(table: PaperTable, results: Results) -> dict[str, Table]:
    """The tables of the page by their headings."""
    found = {"Reported and here": lines(table, results)}
    if spared := savings(table, results):
        found["Speed-up and saving"] = spared
    if (how := made(table, results)).rows:
        found["How each was made"] = how
    return found


def remarks(table: PaperTable, results: Results) -> list[str]:
    """What the numbers themselves do not show."""
    about = [f"Reported: {table.unit}.", f"Test images of the paper: {table.images}." if table.images else ""]
    kinds = {"Uncertain": table.uncertain, "Note": table.notes, "Mended in the transcription": table.mended}
    rows = [f"{row.label}: {row.note}." for row in table.rows if row.note]
    told = [f"{kind}: {text}." for kind, texts in kinds.items() for text in texts]
    return [*filter(None, about), *_missing(table, results), *told, *rows]


def _missing(table: PaperTable, results: Results) -> list[str]:
    """Why rows are missing, each reason once."""
    missing = [row for row in table.rows if row.why and not results.get(row.label)]
    reasons = dict.fromkeys(row.why for row in missing)
    named = {why: ", ".join(row.label for row in missing if row.why == why) for why in reasons}
    return [f"Missing: {labels}: {why}." for why, labels in named.items()]


def markdown(table: PaperTable, results: Results, drawn: list[str]) -> str:
    parts = [f"# {markdown_text(table.source)}: {markdown_text(table.title)}", BUDGET]
    for title, content in sections(table, results).items():
        parts += [f"## {title}", formats.markdown(content).strip()]
    parts += [f"![{name}]({table.name}-{name}.svg)" for name in drawn]
    parts.append("\n".join(f"- {markdown_text(text)}" for text in remarks(table, results)))
    return "\n\n".join(parts) + "\n"


def latex(table: PaperTable, results: Results) -> str:
    found = sections(table, results)
    blocks = [f"% {title}\n{formats.latex_table(content)}" for title, content in found.items()]
    return f"% {plain(table.source)}: {plain(table.title)}\n% {BUDGET}\n" + "\n".join(blocks)


def csv_text(table: PaperTable, results: Results) -> str:
    """One line for every number measured here, in the unit of the reported one; and for every one without any."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in _records(table, results):
        writer.writerow([csv_cell("" if each in (UNKNOWN, "None") else each) for each in map(str, line)])
    return text.getvalue()


def _records(table: PaperTable, results: Results) -> Iterator[list[object]]:
    groups, baseline = numbered(table, results), results.get(BASELINE, ())
    for row in table.rows:
        mine = [group for group in groups if group.row is row]
        for column in table.columns():
            what = [table.name, row.label, column, _unit(table, column), row.reported.get(column)]
            if not mine and row.reported.get(column) is not None:
                yield [*what, *("" for _ in COLUMNS[len(what) :])]
            for group in mine:
                yield [*what, *_numbers(table, column, group, baseline), *_how(group)]


def _unit(table: PaperTable, column: str) -> str:
    if shift_of(table, column):
        return PERCENT
    return FRACTION if radius_of(column) is not None else ""


def _numbers(table: PaperTable, column: str, group: Group, baseline: Sequence[Result]) -> list[object]:
    """What is measured here, its deviation and interval, and the difference with its own, in the column's unit."""
    found, printed = value(table, column, group.results, baseline), as_precise(group.row, column)
    shift = shift_of(table, column)
    known = difference(found, printed, shift) if found and printed is not None else None
    here = [found.value, found.deviation, *(found.interval or (None, None))] if found else [None] * 4
    gap = [known.value, *(known.interval or (None, None))] if known else [None] * 3
    return [None if each is None else Decimal(repr(each)).scaleb(shift) for each in [*here, *gap]]


def _how(group: Group) -> list[object]:
    seeds = dict.fromkeys(str(each.seed) for each in group.results if each.seed is not None)
    sources = dict.fromkeys(each.source for each in group.results)
    return [budget(group.results[0]), " ".join(seeds), "; ".join(sources)]


def html(table: PaperTable, results: Results, svgs: dict[str, bytes]) -> str:
    """One page that needs nothing else."""
    template = Template(Path(__file__).with_name("table.html").read_text(encoding="utf-8"))
    parts = [f"<h2>{title}</h2>\n{html_table(content)}" for title, content in sections(table, results).items()]
    drawn = [f"<figure>{svg.decode()[svg.decode().index('<svg') :]}</figure>" for svg in svgs.values()]
    notes = "".join(f"<li>{escape(plain(text))}</li>" for text in remarks(table, results))
    return template.substitute(
        title=escape(plain(table.title)),
        source=escape(plain(table.source)),
        budget=escape(BUDGET),
        content="\n".join([*parts, *drawn]),
        notes=notes,
    )


def html_table(table: Table) -> str:
    """The table with its numbers aligned right and its words left."""
    kinds = [' class="words"' if words else "" for words in has_words(table)]
    named = zip(kinds, table.head, strict=True)
    head = "".join(f'<th scope="col"{kind}>{escape(plain(text))}</th>' for kind, text in named)
    lines = [zip(kinds, row, strict=True) for row in table.rows]
    rows = ["".join(f"<td{kind}>{escape(plain(cell.text))}</td>" for kind, cell in line) for line in lines]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

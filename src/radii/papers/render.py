"""Render a paper's table beside what was measured here, as Markdown, LaTeX, CSV, figures and one HTML page."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from radii.papers.comparison import Group, budget_text, column_title, comparison, numbered_groups, provenance
from radii.papers.match import BASELINE, Result, Results
from radii.papers.savings import savings_table
from radii.papers.tables import PaperTable
from radii.papers.values import as_precise, difference, radius_of, shift_of, value
from radii.reports import tables
from radii.reports.figures import MUTED, Point, add_legend, legend_name, light_colour, make_axes, to_bytes
from radii.reports.report import write_files
from radii.reports.tables import Table
from radii.reports.text import UNKNOWN, markdown_text, plain, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAVEAT = (
    "A number is measured here at the budget that is stated with it, on the test images that are stated with it: it is "
    "the paper's only where the budget is. Values are rounded down. A difference is here minus reported, with a 95 % "
    "interval over the choice of test images, and of seeds where there are several, and the rounding of the printed "
    "number; it does not have the spread of a single training."
)
CSV_COLUMNS = (
    *("table", "row", "column", "unit", "reported", "here", "deviation", "lower", "upper", "difference"),
    *("difference_lower", "difference_upper", "budget", "seeds", "from"),
)


def write(table: PaperTable, results: Results, out: Path) -> Path:
    """Write the table to a folder in every format, and return the path of the HTML page."""
    svgs = {name: to_bytes(figure, "svg") for name, figure in figures(table, results).items()}
    contents: dict[str, str | bytes] = {
        f"{table.name}.md": markdown(table, results, list(svgs)),
        f"{table.name}.csv": csv_text(table, results),
        f"{table.name}.tex": latex(table, results),
        **{f"{table.name}-{name}.svg": svg for name, svg in svgs.items()},
        f"{table.name}.html": html(table, results, svgs),
    }
    return write_files(out, contents, f"{table.name}.html")


def sections(table: PaperTable, results: Results) -> dict[str, Table]:
    """Return the tables to show, by their headings."""
    shown = {"Reported and here": comparison(table, results)}
    if savings := savings_table(table, results):
        shown["Speed-up and saving"] = savings
    if (origins := provenance(table, results)).rows:
        shown["How each was made"] = origins
    return shown


def remarks(table: PaperTable, results: Results) -> list[str]:
    """Return sentences on the unit, the images, missing rows and uncertain numbers."""
    about = [f"Reported: {table.unit}."]
    if table.images:
        about.append(f"Test images of the paper: {table.images}.")
    missing: dict[str, list[str]] = {}
    for row in table.rows:
        if row.why and not results.get(row.label):
            missing.setdefault(row.why, []).append(row.label)
    reasons = [f"Missing: {', '.join(labels)}: {why}." for why, labels in missing.items()]
    notes = {"Uncertain": table.uncertain, "Note": table.notes, "Mended in the transcription": table.mended}
    general = [f"{kind}: {text}." for kind, texts in notes.items() for text in texts]
    return [*about, *reasons, *general, *(f"{row.label}: {row.note}." for row in table.rows if row.note)]


# Formats.


def markdown(table: PaperTable, results: Results, figure_names: Sequence[str]) -> str:
    """Return the table as Markdown, with links to its figures."""
    blocks = [f"# {markdown_text(table.source)}: {markdown_text(table.title)}", CAVEAT]
    for title, content in sections(table, results).items():
        blocks += [f"## {title}", tables.markdown(content).strip()]
    blocks += [f"![{name}]({table.name}-{name}.svg)" for name in figure_names]
    blocks.append("\n".join(f"- {markdown_text(text)}" for text in remarks(table, results)))
    return "\n\n".join(blocks) + "\n"


def latex(table: PaperTable, results: Results) -> str:
    """Return the table as LaTeX."""
    blocks = [f"% {title}\n{tables.latex(content)}" for title, content in sections(table, results).items()]
    return f"% {plain(table.source)}: {plain(table.title)}\n% {CAVEAT}\n" + "\n".join(blocks)


def csv_text(table: PaperTable, results: Results) -> str:
    """Return one line for every reported or measured number, in the unit of the reported one."""
    records = [map(str, record) for record in _csv_records(table, results)]
    rows = [["" if cell in (UNKNOWN, "None") else cell for cell in record] for record in records]
    return tables.csv_text(CSV_COLUMNS, rows)


def _csv_records(table: PaperTable, results: Results) -> Iterator[list[object]]:
    groups, baseline = numbered_groups(table, results), results.get(BASELINE, ())
    for row in table.rows:
        own = [group for group in groups if group.row is row]
        for column in table.columns():
            unit = "percent" if shift_of(table, column) else "fraction" if radius_of(column) is not None else ""
            cell = [table.name, row.label, column, unit, row.reported.get(column)]
            if not own and row.reported.get(column) is not None:
                yield [*cell, *("" for _ in CSV_COLUMNS[len(cell) :])]
            for group in own:
                yield [*cell, *_csv_numbers(table, column, group, baseline), *_csv_provenance(group)]


def _csv_numbers(table: PaperTable, column: str, group: Group, baseline: Sequence[Result]) -> list[object]:
    """Return what is measured here, its deviation and interval, and the difference with its interval."""
    measured, printed = value(table, column, group.results, baseline), as_precise(group.row, column)
    shift = shift_of(table, column)
    known = difference(measured, printed, shift) if measured and printed is not None else None
    here = [measured.value, measured.deviation, *(measured.interval or (None, None))] if measured else [None] * 4
    gap = [known.value, *(known.interval or (None, None))] if known else [None] * 3
    return [None if number is None else Decimal(repr(number)).scaleb(shift) for number in [*here, *gap]]


def _csv_provenance(group: Group) -> list[object]:
    seeds = dict.fromkeys(str(result.seed) for result in group.results if result.seed is not None)
    sources = dict.fromkeys(result.source for result in group.results)
    return [budget_text(group.results[0]), " ".join(seeds), "; ".join(sources)]


def html(table: PaperTable, results: Results, svgs: dict[str, bytes]) -> str:
    """Return one HTML page that needs no other file."""
    return render(
        Path(__file__).with_name("table.html"),
        table=table,
        caveat=CAVEAT,
        sections={title: tables.html(content, words=True) for title, content in sections(table, results).items()},
        figures=[svg.decode()[svg.decode().index("<svg") :] for svg in svgs.values()],
        remarks=remarks(table, results),
    )


# Figures: the trade-off over a hyper-parameter (CAT-RS, Figures 4 and 5).


def figures(table: PaperTable, results: Results) -> "dict[str, Figure]":
    """Draw ACR and certified accuracies over the smoothed accuracy; nothing for tables without a sweep."""
    if not table.varies or "r0.00" not in table.columns():
        return {}
    radii = [column for column in table.columns() if (radius_of(column) or 0) in (1.0, 2.0)]
    return {f"trade-off-{column_title(column)}": _trade_off(table, results, column) for column in ("acr", *radii)}


def reported_points(table: PaperTable, column: str) -> dict[str, list[Point]]:
    """Return the reported points of every series."""
    points: dict[str, list[Point]] = {}
    for row in table.rows:
        x, y = row.reported.get("r0.00"), row.reported.get(column)
        if row.series and x is not None and y is not None:
            points.setdefault(row.series, []).append((float(x), float(y)))
    return points


def _measured_points(table: PaperTable, results: Results, column: str) -> dict[str, list[Point]]:
    points: dict[str, list[Point]] = {}
    for group in numbered_groups(table, results):
        x, y = (value(table, name, group.results) for name in ("r0.00", column))
        if group.row.series and x and y:
            name = f"{group.row.series}, here ({group.results[0].budget or 'own budget'})"
            scales = [10.0 ** shift_of(table, name) for name in ("r0.00", column)]
            points.setdefault(name, []).append((scales[0] * x.value, scales[1] * y.value))
    return points


def _trade_off(table: PaperTable, results: Results, column: str) -> "Figure":
    """Draw a column over the smoothed accuracy, reported lines dashed and those measured here solid."""
    figure, axes = make_axes(7.2, 4.5)
    reported = reported_points(table, column)
    colour_of = {name: light_colour(number) for number, name in enumerate(reported)}
    for name, points in reported.items():
        x, y = zip(*sorted(points), strict=True)
        axes.plot(x, y, "o--", markersize=4, linewidth=1.2, color=colour_of[name], label=legend_name(name))
    for name, points in _measured_points(table, results, column).items():
        colour = next((colour_of[series] for series in colour_of if name.startswith(f"{series}, here")), MUTED)
        x, y = zip(*sorted(points), strict=True)
        axes.plot(x, y, "s-", markersize=6, linewidth=1.8, color=colour, label=legend_name(name))
    axes.set(xlabel="Smoothed accuracy, %" if table.percent else "Smoothed accuracy")
    title = column_title(column)
    what = title if radius_of(column) is None else f"Certified accuracy at radius {title}"
    axes.set_title(f"{what} over the smoothed accuracy", loc="left", fontsize=11, color=MUTED, pad=12)
    add_legend(figure, axes)
    return figure

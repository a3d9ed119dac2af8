"""The page of a report as HTML, and the same tables as Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from radii.reports import accuracies, population, protocol, tables
from radii.reports.details import COMPUTED, MOST_COLUMNS, SHARED, details_tables
from radii.reports.figures import dark_colour, light_colour
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary, Value, radii_of, shown
from radii.reports.page import curves
from radii.reports.page.charts import training_figures, transfer_figure, vote_rows
from radii.reports.page.notes import claim, headline, headline_radius, noise_words, notes
from radii.reports.page.pictures import galleries, look, read_pictures
from radii.reports.spread import spread
from radii.reports.tables import Table
from radii.reports.text import UNKNOWN, html_text, markdown_text, plain, radius_text
from radii.reports.transfer import trained_runs, transfers

TITLE = "Certified accuracy"
SPREAD = (
    "p 10 % is the largest share of the votes that the top class gets in the hardest tenth of the images. At the cap "
    "are images whose radius only more samples could raise. The easiest fifth is its share of the ACR."
)
DRAWN = "The line across is the ACR of a run that was trained with Gaussian noise alone: the baseline."
NOT_DRAWN = "To see what plain training gives, report a run of the objective gaussian at the same sigma too."
FIGURES = {"curves": "Certified accuracy over the radius", "times": "Seconds of training per epoch"}


@dataclass(frozen=True)
class Content:
    """What a report says, computed once for HTML and Markdown."""

    entries: Sequence[Entry]
    title: str = TITLE
    radii: tuple[float, ...] = ()
    """The radii of the tables; chosen to fit the data if there are none."""
    command: str = ""
    """The command that made the report."""
    corruptions: Mapping[str, Table] = field(default_factory=dict)
    """Tables by kind of corruption, by title."""

    @cached_property
    def radius(self) -> float:
        return headline_radius(self.entries, self.radii)

    @cached_property
    def accuracies(self) -> Table:
        return accuracies.accuracies(self.entries, self.radii)

    @cached_property
    def best_is_bold(self) -> str:
        comparable = protocol.comparable([entry.certificates for entry in self.entries])
        return " The best of a column is bold." if comparable else ""

    @cached_property
    def notes(self) -> list[str]:
        return notes(self.entries)

    @cached_property
    def spread(self) -> Table:
        return spread(self.entries, self.radius)

    @cached_property
    def transfers(self) -> Table | None:
        return transfers(self.entries)

    @cached_property
    def populations(self) -> Table | None:
        """What is proven about populations by the runs; None if nothing is."""
        runs = {entry.source: entry.run for entry in self.entries if entry.run is not None}
        proofs = population.of_runs(list(runs.items()))
        return population.table(proofs) if proofs else None

    @cached_property
    def details(self) -> Mapping[str, Table]:
        return details_tables(self.entries)


def markdown(content: Content, figures: Iterable[str]) -> str:
    """Write the tables for a README or a pull request; `figures` are files beside it."""
    corruptions = {title: tables.markdown(table).strip() for title, table in content.corruptions.items()}
    parts = [
        f"# {markdown_text(content.title)}",
        f"{claim(content.entries)} {noise_words(content.entries)}",
        "Per cent of all images certified at each radius, rounded down; ACR is the average certified radius."
        + content.best_is_bold,
        tables.markdown(content.accuracies).strip(),
        "\n".join(f"- {markdown_text(note)}" for note in content.notes),
        "\n".join(f"![{FIGURES[Path(file).stem]}]({file})" for file in figures),
        f"## Transfer\n\n{tables.markdown(content.transfers).strip()}" if content.transfers else "",
        *(f"## {markdown_text(title)}\n\n{text}" for title, text in corruptions.items()),
        f"## {population.TITLE}\n\n{population.CAPTION}\n\n{tables.markdown(content.populations).strip()}"
        if content.populations
        else "",
        "## 95 % intervals over the choice of test images",
        tables.markdown(accuracies.intervals(content.accuracies)).strip(),
        "## What the average hides",
        SPREAD,
        tables.markdown(content.spread).strip(),
        f"## {COMPUTED}",
        *(tables.markdown(table).strip() for table in content.details.values()),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def html(content: Content) -> str:
    """Write the page: tables, figures and pictures inline, no outside request; a small script helps to read it."""
    entries, radius = content.entries, content.radius
    pictures = [(entry, read) for entry in entries if (read := read_pictures(entry))]
    runs = trained_runs(entries) if content.transfers else []
    by_class = accuracies.by_class(entries, radius)
    many = len(entries) > MOST_COLUMNS
    return _render(
        title=content.title,
        names=[entry.name for entry in entries],
        light=[light_colour(number) for number in range(len(entries))],
        dark=[dark_colour(number) for number in range(len(entries))],
        headlines=[headline(entry, radius) for entry in entries],
        claim=claim(entries),
        noise=noise_words(entries),
        norms=protocol.norm_names([entry.certificates for entry in entries]),
        tiles=_tiles(entries, radius),
        look=look(pictures, radius),
        best_is_bold=content.best_is_bold,
        accuracies=tables.html(content.accuracies, dots=True, sortable=True),
        notes=content.notes,
        caption=curves.caption(entries),
        curves=curves.figure(entries),
        galleries=galleries(pictures),
        by_class=tables.html(by_class, sortable=True) if by_class else "",
        by_class_caption=accuracies.by_class_caption(entries, radius),
        about_spread=SPREAD,
        spread=tables.html(content.spread, dots=True, sortable=True),
        votes=vote_rows(entries),
        training=training_figures(entries),
        transfers=tables.html(content.transfers, sortable=True) if content.transfers else "",
        transfer_figure=transfer_figure(runs, protocol.norm_names([entry.certificates for entry in entries])),
        baseline=DRAWN if any(run.baseline for run in runs) else NOT_DRAWN,
        trained_runs=runs,
        corruptions={title: tables.html(table, sortable=True) for title, table in content.corruptions.items()},
        populations=tables.html(content.populations, sortable=True) if content.populations else "",
        populations_title=population.TITLE,
        populations_caption=population.CAPTION,
        details={
            title: tables.html(table, sortable=many and title != SHARED) for title, table in content.details.items()
        },
        day=datetime.now(UTC).date().isoformat(),
        version=metadata.version("radii"),
        command=content.command,
        data=curves.data(entries, radius),
    )


def _render(**values: Any) -> str:
    """Fill the template; every value is escaped unless the template marks it as HTML with `safe`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = lambda words: html_text(words).replace(" %", "&nbsp;%")
    return environment.get_template("page.html").render(values)


class Tile(NamedTuple):
    """One number in large print: of a single input, or the best of several."""

    title: str
    value: str
    unit: str
    who: str


Metric = Callable[[Summary], Value | None]


def _tiles(entries: Sequence[Entry], radius: float) -> list[Tile]:
    """Return the known numbers in large print; none for several inputs that do not compare."""
    if len(entries) > 1 and not protocol.comparable([entry.certificates for entry in entries]):
        return []
    smaller = [other for other in radii_of([entry.summary for entry in entries]) if 0 < other < radius]
    half = min(smaller, key=lambda other: abs(other - radius / 2), default=radius / 2)
    norm = protocol.norm_names([entry.certificates for entry in entries])
    tiles = [
        _tile(entries, "Smoothed accuracy", lambda summary: summary.known(0.0)),
        _tile(entries, f"Certified at radius {radius_text(half)} ({norm})", lambda summary: summary.known(half)),
        _tile(entries, f"Certified at radius {radius_text(radius)} ({norm})", lambda summary: summary.known(radius)),
        _tile(entries, f"Average certified radius ({norm})", lambda summary: summary.known_acr, percent=False),
    ]
    return [tile for tile in tiles if tile.value != UNKNOWN]


def _tile(entries: Sequence[Entry], title: str, metric: Metric, *, percent: bool = True) -> Tile:
    if len(entries) == 1:
        top, images = metric(entries[0].summary), entries[0].summary.images
        who = f"on {images} image{'s' * (images > 1)} only" if images < protocol.FEWEST_IMAGES else ""
    else:
        top = accuracies.best([entry.summary for entry in entries], metric)
        holders = [entry.name for entry in entries if metric(entry.summary) == top]
        who = f"best: {', '.join(holders)}" if 0 < len(holders) < len(entries) else ""
    value = shown(top, 1, 2) if percent else shown(top, 4)
    return Tile(title, value, " %" if percent and top else "", who)

"""Write a report as an HTML page, and its tables as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from radii.reports import accuracies, population, protocol, tables
from radii.reports.accuracies import Metric
from radii.reports.details import COMPUTED, MOST_COLUMNS, SHARED, details_tables
from radii.reports.figures import dark_colour, light_colour
from radii.reports.inputs import Entry
from radii.reports.metrics import radii_of, shown
from radii.reports.page import curves
from radii.reports.page.charts import training_figures, transfer_figure, vote_rows
from radii.reports.page.notes import claim, headline, headline_radius, noise_words, notes
from radii.reports.page.pictures import galleries, look, read_pictures
from radii.reports.spread import spread
from radii.reports.tables import Table
from radii.reports.text import UNKNOWN, markdown_text, radius_text, render
from radii.reports.transfer import trained_runs, transfers
from radii.runs.certificates import Certificates

TITLE = "Certified accuracy"
SPREAD = (
    "p 10 % is the largest share of the votes that the top class gets in the hardest tenth of the images. At the cap "
    "are images whose radius only more samples could raise. The easiest fifth is its share of the ACR."
)
# How the figure of transfer shows its baseline.
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
    def certificates(self) -> list[Certificates]:
        return [entry.certificates for entry in self.entries]

    @cached_property
    def norms(self) -> str:
        return protocol.norm_names(self.certificates)

    @cached_property
    def comparable(self) -> bool:
        return protocol.comparable(self.certificates)

    @cached_property
    def radius(self) -> float:
        """The radius of the headlines."""
        return headline_radius(self.entries, self.radii)

    @cached_property
    def accuracies(self) -> Table:
        return accuracies.accuracies(self.entries, self.radii)

    @cached_property
    def best_is_bold(self) -> str:
        return " The best of a column is bold." if self.comparable else ""

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
    titled = {f"## {markdown_text(title)}": table for title, table in content.corruptions.items()}
    if content.transfers:
        titled = {"## Transfer": content.transfers, **titled}
    if content.populations:
        titled[f"## {population.TITLE}\n\n{population.CAPTION}"] = content.populations
    blocks = [
        f"# {markdown_text(content.title)}",
        f"{claim(content.entries)} {noise_words(content.entries)}",
        "Per cent of all images certified at each radius, rounded down; ACR is the average certified radius."
        + content.best_is_bold,
        tables.markdown(content.accuracies).strip(),
        "\n".join(f"- {markdown_text(note)}" for note in content.notes),
        "\n".join(f"![{FIGURES[Path(file).stem]}]({file})" for file in figures),
        *(f"{title}\n\n{tables.markdown(table).strip()}" for title, table in titled.items()),
        "## 95 % intervals over the choice of test images",
        tables.markdown(accuracies.intervals(content.accuracies)).strip(),
        "## What the average hides",
        SPREAD,
        tables.markdown(content.spread).strip(),
        f"## {COMPUTED}",
        *(tables.markdown(table).strip() for table in content.details.values()),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def html(content: Content) -> str:
    """Write the page: tables, figures and pictures inline, without outside requests; a script helps to read it."""
    entries, radius = content.entries, content.radius
    pictures = [(entry, images) for entry in entries if (images := read_pictures(entry))]
    runs = trained_runs(entries) if content.transfers else []
    by_class = accuracies.by_class(entries, radius)
    many = len(entries) > MOST_COLUMNS
    return render(
        Path(__file__).with_name("page.html"),
        content=content,
        light=[light_colour(number) for number in range(len(entries))],
        dark=[dark_colour(number) for number in range(len(entries))],
        names=[entry.name for entry in entries],
        headlines=[headline(entry, radius) for entry in entries],
        claim=claim(entries),
        noise=noise_words(entries),
        tiles=_tiles(content),
        look=look(pictures, radius),
        accuracies=tables.html(content.accuracies, dots=True, sortable=True),
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
        transfer_figure=transfer_figure(runs, content.norms),
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
        data=curves.data(entries, radius),
    )


class Tile(NamedTuple):
    """A number in large print: of a single input, or the best of several."""

    title: str
    value: str
    unit: str
    who: str
    """Which input has the best value, or a warning about few images."""


def _tiles(content: Content) -> list[Tile]:
    """Return the known numbers in large print; none for several inputs that do not compare."""
    entries, radius, norms = content.entries, content.radius, content.norms
    if len(entries) > 1 and not content.comparable:
        return []
    smaller = [other for other in radii_of([entry.summary for entry in entries]) if 0 < other < radius]
    half = min(smaller, key=lambda other: abs(other - radius / 2), default=radius / 2)
    tiles = [
        _tile(entries, "Smoothed accuracy", lambda summary: summary.known(0.0)),
        _tile(entries, f"Certified at radius {radius_text(half)} ({norms})", lambda summary: summary.known(half)),
        _tile(entries, f"Certified at radius {radius_text(radius)} ({norms})", lambda summary: summary.known(radius)),
        _tile(entries, f"Average certified radius ({norms})", lambda summary: summary.known_acr, percent=False),
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

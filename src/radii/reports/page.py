"""The page of a report: one HTML file that needs nothing else, and the same in Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from string import Template

from radii.reports import classes, colours, formats, galleries, protocol, reading, tables
from radii.reports.chart import text
from radii.reports.distributions import distributions
from radii.reports.entries import Entry
from radii.reports.headline import headline_radius, sentence
from radii.reports.html import card, section, table
from radii.reports.notes import notes
from radii.reports.summary import Summary, Value, radii_of, radius_text, shown
from radii.reports.tables import Table
from radii.reports.text import markdown_text
from radii.reports.training_curves import training_curves
from radii.reports.transfer import transfers
from radii.reports.transfer_figure import transfer_figure

TITLE = "Certified accuracy"
FIGURES = {"curves": "Certified accuracy over the radius", "times": "Seconds of training per epoch"}


@dataclass(frozen=True)
class Options:
    """What the reader of a report chose."""

    title: str = TITLE
    radii: tuple[float, ...] = ()
    """The radii of the tables; chosen for the data if there are none."""
    command: str = ""
    """What the report was made by."""
    tables: tuple[tuple[str, Table], ...] = ()
    """Further tables with their titles."""


DEFAULT = Options()


def html(entries: Sequence[Entry], options: Options) -> str:
    """The page: tables, figures and pictures inline, no outside request; its own small script helps to read it."""
    here = Path(__file__).parent
    radius = headline_radius(entries, options.radii)
    remarks = "".join(f"<li>{text(note)}</li>" for note in notes(entries))
    return Template((here / "page.html").read_text(encoding="utf-8")).substitute(
        title=text(options.title),
        claim=text(claim(entries)),
        light=_variables(entries, colours.light),
        dark=_variables(entries, colours.dark),
        style=(here / "page.css").read_text(encoding="utf-8"),
        headlines=_headlines(entries, radius),
        tiles=_tiles(entries, radius),
        look=galleries.look(entries, radius),
        best=_best_in_words(entries),
        accuracies=card(table(tables.accuracies(entries, options.radii), dots=True), "Certified accuracy by radius"),
        notes=f'<ul class="quiet">{remarks}</ul>' if remarks else "",
        caption=reading.caption(entries),
        curves=reading.figure(entries),
        legend=_legend(entries),
        sections="\n".join([*_sections(entries, radius), *_further(options)]),
        facts=_facts(entries),
        made=_made(options),
        data=reading.data(entries, radius),
        script=(here / "page.js").read_text(encoding="utf-8"),
    )


def _sections(entries: Sequence[Entry], radius: float) -> list[str]:
    """What some reports have and others have not."""
    found = []
    if pictures := galleries.galleries(entries):
        found.append(section("Pictures", pictures, GALLERY))
    if classwise := classes.per_class(entries, radius):
        words = text(classes.caption(entries, radius))
        found.append(section("Class by class", card(table(classwise), "Class by class", "classes"), words))
    if votes := distributions(entries):
        found.append(section("Votes and samples", card(votes, "Votes and samples"), VOTES))
    if lines := training_curves(entries):
        figures = "".join(f'<figure class="card">{each}</figure>' for each in lines)
        found.append(section("Training", f'<div class="abreast">{figures}</div>', TRAINING if len(entries) > 1 else ""))
    if students := transfers(entries):
        drawn = transfer_figure(entries)
        said = "<figcaption>Average certified radius (ACR) over training time</figcaption>"
        figure = f'<figure class="card">{said}{drawn}</figure>' if drawn else ""
        listed = card(table(students), "Transfer", "facts")
        found.append(section("Transfer", figure + listed, STORY if drawn else ""))
    return found


def _facts(entries: Sequence[Entry]) -> str:
    """How the numbers were computed; rows of inputs can be sorted."""
    shared, own, many = tables.shared_facts(entries), tables.facts_table(entries), len(entries) > tables.MOST_ABREAST
    parts = [card(table(shared, sortable=False), "The same for all inputs", "facts")] if shared else []
    if len(own.head) > 1:
        parts.append(card(table(own, sortable=many), "How these numbers were computed", "facts"))
    return "\n".join(parts)


def _further(options: Options) -> list[str]:
    return [section(text(title), card(table(each), text(title), "facts")) for title, each in options.tables]


GALLERY = (
    "Test pictures by certified radius, each as it is; where an attack was run, beside it the change just inside the "
    "radius and the shortest one outside that was found to give another answer. A certified answer can be wrong: it is "
    "only proven not to change."
)
VOTES = "How large a share of the votes the top class got, image by image, and how many samples were drawn for it."
TRAINING = "The colours are those of the certified accuracy above."
STORY = (
    "A filled point is a run. The hollow point of a student is how long the teacher’s method would have taken "  # noqa: RUF001
    "on the student’s architecture, extrapolated from a few timed steps, for as many epochs as the teacher’s."  # noqa: RUF001
)


def _headlines(entries: Sequence[Entry], radius: float) -> str:
    """The result of every input in words."""
    if len(entries) == 1:
        return f'<p class="headline">{_unbroken(sentence(entries[0], radius))}</p>'
    lines = "".join(
        f'<li class="run-{number}"><span class="dot" style="background: var(--c{number})"></span>'
        f"<strong>{text(entry.name)}</strong> {_unbroken(sentence(entry, radius))}</li>"
        for number, entry in enumerate(entries)
    )
    return f'<ul class="headlines">{lines}</ul>'


def _unbroken(words: str) -> str:
    """Words as HTML, a number and its per cent sign on one line."""
    return text(words).replace(" %", "&nbsp;%")


def _legend(entries: Sequence[Entry]) -> str:
    items = "".join(
        f'<li data-run="{number}"><span class="dot" style="background: var(--c{number})"></span>{text(entry.name)}</li>'
        for number, entry in enumerate(entries)
    )
    return f'<ul class="legend">{items}</ul>'


def _made(options: Options) -> str:
    """When and by what the page was made."""
    day = datetime.now(UTC).date().isoformat()
    by = f" by <code>{text(options.command)}</code>" if options.command else ""
    return f"Made on {day} with radii {text(metadata.version('radii'))}{by}"


def markdown(entries: Sequence[Entry], figures: Iterable[str], options: Options = DEFAULT) -> str:
    """The same tables for a README or a pull request; `figures` are files beside it."""
    accuracies, students = tables.accuracies(entries, options.radii), transfers(entries)
    parts = [
        f"# {markdown_text(options.title)}",
        claim(entries),
        "Per cent of all images certified at each radius, rounded down; ACR is the average certified radius."
        + _best_in_words(entries),
        formats.markdown(accuracies).strip(),
        "\n".join(f"- {markdown_text(note)}" for note in notes(entries)),
        "\n".join(f"![{FIGURES[Path(file).stem]}]({file})" for file in figures),
        f"## Transfer\n\n{formats.markdown(students).strip()}" if students else "",
        *(f"## {markdown_text(title)}\n\n{formats.markdown(table).strip()}" for title, table in options.tables),
        "## 95 % intervals over the choice of test images",
        formats.markdown(tables.intervals(accuracies)).strip(),
        "## How these numbers were computed",
        formats.markdown(shared).strip() if (shared := tables.shared_facts(entries)) else "",
        formats.markdown(own).strip() if len((own := tables.facts_table(entries)).head) > 1 else "",
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
        " It holds for noise in exact arithmetic. With noise drawn in float32 it promises nothing about a base "
        "classifier that was built to look at the last bits of its input; with the noise grid it does."
    )


def _best_in_words(entries: Sequence[Entry]) -> str:
    return " The best of a column is bold." if protocol.comparable([entry.certificates for entry in entries]) else ""


Tile = tuple[Callable[[Summary], Value | None], int, int, str]


def _what(entries: Sequence[Entry], radius: float) -> Mapping[str, Tile]:
    """The headlines: what each shows, its digits, by how many its point is shifted, and its unit."""
    known = [each for each in radii_of([entry.summary for entry in entries]) if 0 < each < radius]
    half = min(known, key=lambda each: abs(each - radius / 2), default=radius / 2)
    return {
        "Clean accuracy": (lambda each: each.known(0.0), 1, 2, " %"),
        f"Certified at radius {radius_text(half)}": (lambda each: each.known(half), 1, 2, " %"),
        f"Certified at radius {radius_text(radius)}": (lambda each: each.known(radius), 1, 2, " %"),
        "Average certified radius": (lambda each: each.known_acr, 4, 0, ""),
    }


def _tiles(entries: Sequence[Entry], radius: float) -> str:
    """The headlines of one input, or the best of several; none of several that do not compare."""
    if len(entries) > 1 and not protocol.comparable([entry.certificates for entry in entries]):
        return ""
    tiles = "\n".join(_tile(entries, what, tile) for what, tile in _what(entries, radius).items())
    return f'<dl class="tiles">\n{tiles}\n</dl>'


def _tile(entries: Sequence[Entry], what: str, tile: Tile) -> str:
    value, digits, shift, unit = tile
    top = value(entries[0].summary) if len(entries) == 1 else tables.best([each.summary for each in entries], value)
    content = shown(top, digits, shift) + (f"<small>{unit}</small>" if top else "")
    holders = [entry.name for entry in entries if value(entry.summary) == top]
    best = f"best: {', '.join(holders)}" if 0 < len(holders) < len(entries) else ""
    who = text(_few(entries) if len(entries) == 1 else best)
    return f'<div class="tile"><dt>{what}</dt><dd class="value">{content}</dd><dd class="who">{who}</dd></div>'


def _few(entries: Sequence[Entry]) -> str:
    images = entries[0].summary.images
    return f"on {images} image{'s' * (images > 1)} only" if images < protocol.FEWEST_IMAGES else ""


def _variables(entries: Sequence[Entry], colour: Callable[[int], str]) -> str:
    return " ".join(f"--c{number}: {colour(number)};" for number in range(len(entries)))

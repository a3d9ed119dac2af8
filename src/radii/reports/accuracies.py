"""The tables of certified accuracy: by radius, with intervals, class by class; report.csv and report.tex."""

from collections.abc import Callable, Mapping, Sequence

from radii.reports import protocol, tables
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary, Value, radii_of, shown
from radii.reports.tables import Cell, Table
from radii.reports.text import UNKNOWN, down, percent_range, plain, radius_text, up
from radii.runs.certificates import Certificates
from radii.smoothing.norms import L2

MOST_COLUMNS = 10
"""The most radii that a page shows; the CSV has them all."""
MOST_CLASSES = 50
"""The most classes in a table; if there are more, those with the lowest accuracy of the first input are shown."""
WITHOUT_NOISE = "no noise"
"""The title of the column of the network's own accuracy."""
COLUMNS = (
    *("name", "noise", "norm", "sigma", "certifier", "failure", "label_known", "engine", "seed", "weights"),
    *("images", "images_chosen", "acr", "acr_at_least", "clean", "abstained", "smoothed", "without_noise"),
)
"""The columns of report.csv before those of the radii. `clean` is the older name of `smoothed`."""


def accuracies(entries: Sequence[Entry], radii: Sequence[float] = ()) -> Table:
    """Return the table of certified accuracy in per cent at each radius, ACR and abstentions.

    Numbers are rounded down, abstentions up.
    """
    summaries = [entry.summary for entry in entries]
    radii = radii or radii_of(summaries, MOST_COLUMNS)
    alone = [_alone(entry) for entry in entries]
    measured = [WITHOUT_NOISE] if any(cell.text != UNKNOWN for cell in alone) else []
    columns = [
        [Cell(entry.name) for entry in entries],
        [Cell(_sigma(entry.certificates)) for entry in entries],
        *([alone] if measured else []),
        _acr_column(summaries),
        *(_accuracy_column(summaries, radius) for radius in radii),
        [Cell(_abstentions(summary)) for summary in summaries],
    ]
    head = ["", "σ", *measured, "ACR", *map(radius_text, radii), "abstains"]  # noqa: RUF001
    return Table(head, list(zip(*columns, strict=True)))


def _alone(entry: Entry) -> Cell:
    """Return the accuracy of the network alone, without noise, with its interval."""
    share = entry.without_noise
    if share is None:
        return Cell(UNKNOWN)
    return Cell(down(share.value, 1, 2), interval=percent_range(share.interval()), share=share.value)


def _sigma(certificates: Certificates) -> str:
    """Return the noise's sigma, or the parameters of a noise that has none; never the recipe's sigma."""
    if certificates.sigma is not None:
        return radius_text(certificates.sigma)
    others = {key: value for key, value in certificates.noise.items() if key not in ("name", "sigma")}
    return ", ".join(f"{key} {value}" for key, value in others.items()) or UNKNOWN


def _acr_column(summaries: Sequence[Summary]) -> list[Cell]:
    top = best(summaries, lambda summary: summary.known_acr)
    values = [summary.known_acr for summary in summaries]
    return [Cell(shown(value, 4), best=top is not None and value == top) for value in values]


def _accuracy_column(summaries: Sequence[Summary], radius: float) -> list[Cell]:
    top = best(summaries, lambda summary: summary.known(radius))
    cells = [(summary.known(radius), accuracy_cell(summary, radius)) for summary in summaries]
    return [cell._replace(best=top is not None and value == top) for value, cell in cells]


def _abstentions(summary: Summary) -> str:
    return UNKNOWN if (share := summary.known_abstentions) is None else up(share.value, 1, 2)


def accuracy_cell(summary: Summary, radius: float) -> Cell:
    """Return the certified accuracy at a radius, with its interval if the radius was tested."""
    text = shown(summary.known(radius), 1, 2)
    if not summary.decided(radius):
        return Cell(text)
    return Cell(text, interval=percent_range(summary.interval(radius)), share=summary.at(radius).value)


def best(summaries: Sequence[Summary], value: Callable[[Summary], Value | None]) -> Value | None:
    """Return the largest of comparable values; None if a value is unknown, only a bound, or 0."""
    exact = [known for summary in summaries if (known := value(summary)) and known.exact]
    if len(exact) < len(summaries) or not protocol.comparable([summary.certificates for summary in summaries]):
        return None
    return max(exact) if max(exact).value > 0 else None


def intervals(table: Table) -> Table:
    """Return the table of the 95 % intervals of a table's columns that have any."""
    columns = [0, *(n for n in range(len(table.head)) if any(row[n].interval for row in table.rows))]
    rows = [[row[0], *(Cell(row[n].interval or UNKNOWN) for n in columns[1:])] for row in table.rows]
    return Table([table.head[n] for n in columns], rows)


def by_class(entries: Sequence[Entry], radius: float) -> Table | None:
    """Return the table of certified accuracy at a radius by class, one column for each input.

    None if there is one class only, or if the class names of the inputs differ.
    """
    named = {names for entry in entries if (names := entry.class_names)}
    labels = _labels(entries)
    if len(labels) < 2 or len(named) > 1:
        return None
    names = named.pop() if named else ()
    columns = [entry.summary.by_class() for entry in entries]
    first = columns[0]
    lowest = sorted(labels, key=lambda label: first[label].at(radius).value if label in first else 2.0)[:MOST_CLASSES]
    head = ["Class", "Images", *(entry.name for entry in entries)]
    rows = [
        [
            Cell(names[label] if 0 <= label < len(names) else f"class {label}"),
            Cell(_image_counts(label, columns)),
            *(accuracy_cell(column[label], radius) if label in column else Cell(UNKNOWN) for column in columns),
        ]
        for label in sorted(lowest)
    ]
    return Table(head, rows)


def by_class_caption(entries: Sequence[Entry], radius: float) -> str:
    """Say what the table by class shows."""
    count = len(_labels(entries))
    few = f", of the {MOST_CLASSES} lowest of {count} classes" if count > MOST_CLASSES else ""
    norms = protocol.norm_names([entry.certificates for entry in entries])
    return f"Per cent of each class certified at radius {radius_text(radius)} ({norms}){few}, rounded down."


def _labels(entries: Sequence[Entry]) -> list[int]:
    return sorted({row.label for entry in entries for row in entry.certificates.rows})


def _image_counts(label: int, columns: Sequence[Mapping[int, Summary]]) -> str:
    counts = sorted({column[label].images if label in column else 0 for column in columns})
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"  # noqa: RUF001


def csv_text(entries: Sequence[Entry], radii: Sequence[float] = ()) -> str:
    """Write report.csv: one row per input, fractions with six digits, rounded down; unknown values are empty."""
    radii = radii or radii_of([entry.summary for entry in entries])
    rows = [
        [entry.name, *_settings(entry).values(), *_numbers(entry), *(_share(entry.summary, r) for r in radii)]
        for entry in entries
    ]
    head = [*COLUMNS, *(f"r{radius_text(radius)}" for radius in radii)]
    return tables.csv_text(head, [["" if cell == UNKNOWN else cell for cell in row] for row in rows])


def as_json(entry: Entry, radii: Sequence[float] = ()) -> dict[str, object]:
    """Return the numbers of a row of report.csv for report.json; unknown ones are None."""
    summary, certificates = entry.summary, entry.certificates
    acr, abstained, alone = summary.known_acr, summary.known_abstentions, entry.without_noise
    chosen = [radius for radius in radii or radii_of([summary]) if summary.decided(radius)]
    return {
        "name": entry.name,
        "sigma": certificates.sigma,
        "noise": certificates.header.get("noise"),
        "norm": certificates.norm and certificates.norm.name,
        "certifier": certificates.certifier,
        "label_known": None if certificates.certifier is None else protocol.label_known(certificates),
        "images": summary.images,
        "acr": acr.value if acr and acr.exact else None,
        "acr_at_least": acr and acr.value,
        "abstained": abstained and abstained.value,
        "smoothed": summary.clean.value if summary.decided(0.0) else None,
        "without_noise": alone and alone.value,
        "certified": {radius_text(radius): summary.at(radius).value for radius in chosen},
    }


def latex(entries: Sequence[Entry], radii: Sequence[float] = ()) -> str:
    """Write report.tex: the accuracies, with a line on how they were computed."""
    settings = [_remark(entry) for entry in entries]
    comments = [f"% {plain(entry.name)}: {_line(setting)}" for entry, setting in zip(entries, settings, strict=True)]
    differing = [key for key in settings[0] if len({setting[key] for setting in settings}) > 1]
    shared = _line({key: value for key, value in settings[0].items() if key not in differing})
    remark = [shared, f"{', '.join(differing)}: not the same in all rows" if differing else ""]
    return "\n".join([*comments, tables.latex(accuracies(entries, radii), "; ".join(filter(None, remark)))])


def _settings(entry: Entry) -> dict[str, str]:
    """Return how the certificates were made, in the order of the columns of report.csv."""
    certificates = entry.certificates
    known = {
        "noise": certificates.noise.get("name") if "noise" in certificates.header else None,
        "norm": certificates.norm,
        "sigma": certificates.sigma,
        "certifier": certificates.certifier,
        "failure": certificates.failure,
        "label_known": None
        if certificates.certifier is None
        else "yes"
        if protocol.label_known(certificates)
        else "no",
        "engine": certificates.header.get("engine"),
        "seed": certificates.header.get("seed"),
        "weights": entry.weights or None,
        "images": len(certificates.rows),
        "images_chosen": protocol.planned_images(certificates),
    }
    return {key: UNKNOWN if value is None else str(value) for key, value in known.items()}


def _remark(entry: Entry) -> dict[str, str]:
    """Return how the certificates were made, for the remarks of report.tex."""
    settings = _settings(entry)
    images, chosen = settings["images"], settings["images_chosen"]
    return {
        **{key: settings[key] for key in ("certifier", "failure", "engine", "seed")},
        "norm": UNKNOWN if settings["norm"] == L2.name else settings["norm"],
        "images": images if chosen == UNKNOWN else f"{images} of {chosen}",
        "label": "known" if protocol.label_known(entry.certificates) else UNKNOWN,
    }


def _line(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items() if value != UNKNOWN)


def _numbers(entry: Entry) -> list[str]:
    """Return ACR, its bound, smoothed accuracy, abstentions and accuracy without noise, for report.csv."""
    summary, alone = entry.summary, entry.without_noise
    acr, abstained = summary.known_acr, summary.known_abstentions
    return [
        down(acr.value, 6) if acr and acr.exact else "",
        down(acr.value, 6) if acr else "",
        _share(summary, 0.0),
        up(abstained.value, 6) if abstained else "",
        _share(summary, 0.0),
        down(alone.value, 6) if alone else "",
    ]


def _share(summary: Summary, radius: float) -> str:
    return down(summary.at(radius).value, 6) if summary.decided(radius) else ""

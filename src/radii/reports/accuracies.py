"""Tables of certified accuracy: by radius, with intervals, and class by class; report.csv and report.tex."""

from collections.abc import Callable, Mapping, Sequence

from radii.reports import protocol, tables
from radii.reports.inputs import Entry
from radii.reports.metrics import Share, Summary, Value, radii_of, shown
from radii.reports.tables import Cell, Table
from radii.reports.text import UNKNOWN, class_name, down, percent_range, plain, radius_text, up
from radii.runs.certificates import Certificates
from radii.smoothing.norms import L2

Metric = Callable[[Summary], Value | None]

MOST_COLUMNS = 10
"""The most radii in a table of the page; report.csv has them all."""
MOST_CLASSES = 50
"""The most classes in a table; of more, it has those with the lowest accuracy of the first input."""
WITHOUT_NOISE = "no noise"
"""The title of the column with the network's own accuracy."""
COLUMNS = (
    *("name", "noise", "norm", "sigma", "certifier", "failure", "label_known", "engine", "seed", "weights"),
    *("images", "images_chosen", "acr", "acr_at_least", "clean", "abstained", "smoothed", "without_noise"),
)
"""The columns of report.csv before those of the radii. `clean` is the older name of `smoothed`."""


def accuracies(entries: Sequence[Entry], radii: Sequence[float] = ()) -> Table:
    """Return the table of certified accuracy at each radius in per cent, ACR and abstentions.

    Numbers are rounded down, abstentions up.
    """
    summaries = [entry.summary for entry in entries]
    radii = radii or radii_of(summaries, MOST_COLUMNS)
    abstentions = [summary.known_abstentions for summary in summaries]
    columns = {
        "": [Cell(entry.name) for entry in entries],
        "σ": [Cell(_sigma(entry.certificates)) for entry in entries],  # noqa: RUF001
        WITHOUT_NOISE: [_without_noise_cell(entry.without_noise) for entry in entries],
        "ACR": _acr_column(summaries),
        **{radius_text(radius): _accuracy_column(summaries, radius) for radius in radii},
        "abstains": [Cell(up(share.value, 1, 2) if share else UNKNOWN) for share in abstentions],
    }
    if not any(entry.without_noise for entry in entries):
        del columns[WITHOUT_NOISE]
    return Table(list(columns), list(zip(*columns.values(), strict=True)))


def _without_noise_cell(share: Share | None) -> Cell:
    if share is None:
        return Cell(UNKNOWN)
    return Cell(down(share.value, 1, 2), interval=percent_range(share.interval()), share=share.value)


def _sigma(certificates: Certificates) -> str:
    """Return the sigma of the noise, or the parameters of a noise that has none."""
    if certificates.sigma is not None:
        return radius_text(certificates.sigma)
    others = {key: value for key, value in certificates.noise.items() if key not in ("name", "sigma")}
    return ", ".join(f"{key} {value}" for key, value in others.items()) or UNKNOWN


def _acr_column(summaries: Sequence[Summary]) -> list[Cell]:
    cells = [Cell(shown(summary.known_acr, 4)) for summary in summaries]
    return _with_best(cells, summaries, lambda summary: summary.known_acr)


def _accuracy_column(summaries: Sequence[Summary], radius: float) -> list[Cell]:
    cells = [_accuracy_cell(summary, radius) for summary in summaries]
    return _with_best(cells, summaries, lambda summary: summary.known(radius))


def _with_best(cells: Sequence[Cell], summaries: Sequence[Summary], metric: Metric) -> list[Cell]:
    """Mark the cells of the inputs with the largest value of a metric."""
    top = best(summaries, metric)
    pairs = zip(cells, summaries, strict=True)
    return [cell._replace(best=top is not None and metric(summary) == top) for cell, summary in pairs]


def _accuracy_cell(summary: Summary, radius: float) -> Cell:
    """Return the certified accuracy at a radius, with its interval if the radius was tested."""
    text = shown(summary.known(radius), 1, 2)
    if not summary.decided(radius):
        return Cell(text)
    return Cell(text, interval=percent_range(summary.interval(radius)), share=summary.at(radius).value)


def best(summaries: Sequence[Summary], metric: Metric) -> Value | None:
    """Return the largest value of a metric; None if the inputs do not compare, a value is not exact, or all are 0."""
    exact = [known for summary in summaries if (known := metric(summary)) and known.exact]
    if len(exact) < len(summaries) or not protocol.comparable([summary.certificates for summary in summaries]):
        return None
    return max(exact) if max(exact).value > 0 else None


def intervals(table: Table) -> Table:
    """Return the table of the 95 % intervals, with the columns that have any."""
    columns = [0, *(n for n in range(len(table.head)) if any(row[n].interval for row in table.rows))]
    rows = [[row[0], *(Cell(row[n].interval or UNKNOWN) for n in columns[1:])] for row in table.rows]
    return Table([table.head[n] for n in columns], rows)


def by_class(entries: Sequence[Entry], radius: float) -> Table | None:
    """Return the table of certified accuracy at a radius by class, with a column for each input.

    None if there is only one class, or if the class names of the inputs differ.
    """
    class_names = {names for entry in entries if (names := entry.class_names)}
    labels = _labels(entries)
    if len(labels) < 2 or len(class_names) > 1:
        return None
    names = class_names.pop() if class_names else ()
    columns = [entry.summary.by_class() for entry in entries]
    first = columns[0]
    lowest = sorted(labels, key=lambda label: first[label].at(radius).value if label in first else 2.0)[:MOST_CLASSES]
    head = ["Class", "Images", *(entry.name for entry in entries)]
    rows = [
        [
            Cell(class_name(label, names)),
            Cell(_image_counts(label, columns)),
            *(_accuracy_cell(column[label], radius) if label in column else Cell(UNKNOWN) for column in columns),
        ]
        for label in sorted(lowest)
    ]
    return Table(head, rows)


def by_class_caption(entries: Sequence[Entry], radius: float) -> str:
    """Describe the table by class."""
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
    head = [*COLUMNS, *(f"r{radius_text(radius)}" for radius in radii)]
    return tables.csv_text(head, [_csv_row(entry, radii) for entry in entries])


def _csv_row(entry: Entry, radii: Sequence[float]) -> list[str]:
    numbers = _numbers(entry)
    numbers["clean"] = numbers["smoothed"]
    abstained = numbers["abstained"]
    cells = {
        "name": entry.name,
        **_settings(entry),
        **{key: _six_digits(number) for key, number in numbers.items()},
        "abstained": "" if abstained is None else up(abstained, 6),
    }
    summary = entry.summary
    certified = [_six_digits(summary.at(radius).value) if summary.decided(radius) else "" for radius in radii]
    return [*(cells[column] for column in COLUMNS), *certified]


def _six_digits(number: float | None) -> str:
    return "" if number is None else down(number, 6)


def as_json(entry: Entry, radii: Sequence[float] = ()) -> dict[str, object]:
    """Return the numbers of a row of report.csv for report.json; unknown ones are None."""
    summary, certificates = entry.summary, entry.certificates
    decided = [radius for radius in radii or radii_of([summary]) if summary.decided(radius)]
    return {
        "name": entry.name,
        "sigma": certificates.sigma,
        "noise": certificates.header.get("noise"),
        "norm": certificates.norm and certificates.norm.name,
        "certifier": certificates.certifier,
        "label_known": None if certificates.certifier is None else protocol.label_known(certificates),
        "images": summary.images,
        **_numbers(entry),
        "certified": {radius_text(radius): summary.at(radius).value for radius in decided},
    }


def _numbers(entry: Entry) -> dict[str, float | None]:
    """Return ACR, its bound, and the shares of abstentions and of right answers with and without noise."""
    summary, alone = entry.summary, entry.without_noise
    acr, abstained = summary.known_acr, summary.known_abstentions
    return {
        "acr": acr.value if acr and acr.exact else None,
        "acr_at_least": acr.value if acr else None,
        "abstained": abstained.value if abstained else None,
        "smoothed": summary.clean.value if summary.decided(0.0) else None,
        "without_noise": alone.value if alone else None,
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
    """Return how the certificates were made, by column of report.csv; empty if it is not recorded."""
    certificates = entry.certificates
    label_known = "yes" if protocol.label_known(certificates) else "no"
    settings = {
        "noise": certificates.noise.get("name") if "noise" in certificates.header else None,
        "norm": certificates.norm,
        "sigma": certificates.sigma,
        "certifier": certificates.certifier,
        "failure": certificates.failure,
        "label_known": None if certificates.certifier is None else label_known,
        "engine": certificates.header.get("engine"),
        "seed": certificates.header.get("seed"),
        "weights": entry.weights,
        "images": len(certificates.rows),
        "images_chosen": protocol.planned_images(certificates),
    }
    return {key: "" if value is None else str(value) for key, value in settings.items()}


def _remark(entry: Entry) -> dict[str, str]:
    """Return how the certificates were made, for the comments of report.tex."""
    settings = _settings(entry)
    images, chosen = settings["images"], settings["images_chosen"]
    return {
        **{key: settings[key] for key in ("certifier", "failure", "engine", "seed")},
        "norm": "" if settings["norm"] == L2.name else settings["norm"],
        "images": f"{images} of {chosen}" if chosen else images,
        "label": "known" if protocol.label_known(entry.certificates) else "",
    }


def _line(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {text}" for key, text in settings.items() if text)

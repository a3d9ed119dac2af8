"""Corruptions: ACR and certified accuracy by kind and severity, one certificate file a kind (CAT-RS, Tables 13-25)."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean

from radii.papers.table import PaperTable
from radii.papers.table_runs import Result
from radii.published_datasets import KINDS, SEVERITIES
from radii.reports.corruptions import MEASURES, PUBLISHED_BLOCK, Corrupted, block_of, groups, mean
from radii.reports.entries import Entry
from radii.reports.summary import Share, Summary, Value

Place = tuple[str, int | None]
"""A kind of corruption and its severity; none where the images have no severity."""


def corrupted(table: PaperTable, column: str, results: Sequence[Result]) -> Value | None:
    """A column of a table of corruptions, as a share or radius; none where its files are not all there."""
    value = MEASURES["accuracy" if is_accuracy(table, column) else "ACR"][0]
    parts = _parts(table, results)
    return mean([value(parts[place]) if place in parts else None for place in _places(table, column)])


def interval(table: PaperTable, column: str, results: Sequence[Result]) -> tuple[float, float] | None:
    """The 95 % interval of an accuracy over the choice of images, of Clopper and Pearson.

    An image is taken to be right, or wrong, under all of its corruptions, which is the widest case.
    """
    known, images = corrupted(table, column, results), len(by_image(table, column, results))
    failures = [each.certificates.failure or 0.0 for each in results if each.certificates]
    return Share(known.value * images, images).interval(max(failures)) if known and known.exact else None


def by_image(table: PaperTable, column: str, results: Sequence[Result]) -> list[float]:
    """A value for every image before it was corrupted; their mean is the column's.

    The corruptions of one image go together: only the images were chosen independently.
    """
    found, accuracy = _parts(table, results), is_accuracy(table, column)
    parts = [found[place] for place in _places(table, column) if place in found]
    deviations: dict[int, float] = {}
    for part in parts:
        values = {row.index: row.correct * (1.0 if accuracy else row.radius) for row in part.certificates.rows}
        middle, block = fmean(values.values()), block_of(part.certificates) or PUBLISHED_BLOCK
        for index, each in values.items():
            image = index % block
            deviations[image] = deviations.get(image, 0.0) + (each - middle) / (len(parts) * len(values))
    known = corrupted(table, column, results)
    return [known.value + len(deviations) * each for each in deviations.values()] if known else []


def is_accuracy(table: PaperTable, column: str) -> bool:
    """Whether a column is of certified accuracies, in per cent; of radii otherwise."""
    return column.casefold().startswith(("acc", "macc")) or table.unit.startswith("percent")


def lacking(table: PaperTable, results: Sequence[Result]) -> list[str]:
    """Why columns are unknown: kinds without a whole file, and kinds and severities with no or fewer images."""
    found, parts = _kinds(table, results), _parts(table, results)
    absent = [kind for kind in KINDS[table.dataset[0]].values() if kind not in found]
    short = [place for place in _all_places(table) if place[0] in found and place not in parts]
    none = [place for place in short if _part(found[place[0]], place[1]) is None]
    fewer = [place for place in short if place not in none]
    told = {
        "no complete file of": absent,
        "no images of": [_words(place) for place in none],
        "fewer images than of the others of": [_words(place) for place in fewer],
    }
    return [f"{words} {', '.join(names)}" for words, names in told.items() if names]


def all_kinds(table: PaperTable, results: Sequence[Result]) -> bool:
    """Whether results have all that their table is about: of corruptions, every kind and severity."""
    return table.kind != "corruptions" or not lacking(table, results)


def _places(table: PaperTable, column: str) -> list[Place]:
    """The kinds and severities that a column is the mean of."""
    columns = KINDS[table.dataset[0]]
    return list(product([columns[column]] if column in columns else columns.values(), _severities(table, column)))


def _all_places(table: PaperTable) -> list[Place]:
    """The kinds and severities that the table is about, each once."""
    return list(dict.fromkeys(place for column in table.columns() for place in _places(table, column)))


def _parts(table: PaperTable, results: Sequence[Result]) -> Mapping[Place, Summary]:
    """The certificates of every kind and severity that has as many images as the others, but for one."""
    found = _kinds(table, results)
    parts = {place: _part(found[place[0]], place[1]) for place in _all_places(table) if place[0] in found}
    known = {place: part for place, part in parts.items() if part is not None}
    most = max((part.images for part in known.values()), default=0)
    return {place: part for place, part in known.items() if part.images >= most - 1}


def _kinds(table: PaperTable, results: Sequence[Result]) -> Mapping[str, Corrupted]:
    """The certificates of the papers' kinds."""
    entries = [Entry(each.source, Summary(each.certificates), folder="files") for each in results if each.certificates]
    known = [each for each in entries if each.corruption in KINDS[table.dataset[0]].values()]
    return {each.kind: each for some in groups(known).values() for each in some}


def _part(found: Corrupted, severity: int | None) -> Summary | None:
    return found.whole if severity is None else found.severities.get(severity)


def _words(place: Place) -> str:
    kind, severity = place
    return kind if severity is None else f"{kind} at severity {severity}"


def _severities(table: PaperTable, column: str) -> Sequence[int | None]:
    """The severities that a column is the mean of; none where the images have no severity."""
    if column.startswith(("acr_severity", "acc_severity")):
        return [int(column[-1])]
    _, stated, rest = table.images.partition("severity ")
    if stated:
        return [int(rest[0])]
    return SEVERITIES if table.dataset == ("cifar10_c",) else [None]

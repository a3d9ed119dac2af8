"""Corruptions: ACR and certified accuracy by kind and severity, one certificate file a kind (CAT-RS, Tables 13-25)."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean

from radii.experiment.corruption_kinds import KINDS
from radii.experiment.table import PaperTable
from radii.experiment.table_runs import Result
from radii.report.corruptions import MEASURES, PUBLISHED_BLOCK, SEVERITIES, Corrupted, groups, mean
from radii.report.entries import Entry
from radii.report.summary import Summary


def corrupted(table: PaperTable, column: str, results: Sequence[Result]) -> float | None:
    """A column of a table of corruptions, as a share or radius; none where its files are not all there."""
    value = MEASURES["accuracy" if is_accuracy(table, column) else "ACR"][0]
    known = mean([None if part is None else value(part) for part in _parts(table, column, results)])
    return known.value if known and known.exact else None


def by_image(table: PaperTable, column: str, results: Sequence[Result]) -> list[float]:
    """A value for every image before it was corrupted; their mean is the column's.

    The corruptions of one image go together: only the images were chosen independently.
    """
    parts = [part for part in _parts(table, column, results) if part is not None]
    accuracy = is_accuracy(table, column)
    deviations: dict[int, float] = {}
    for part in parts:
        values = {row.index: row.correct * (1.0 if accuracy else row.radius) for row in part.certificates.rows}
        middle = fmean(values.values())
        for index, found in values.items():
            image = index % _block(part)
            deviations[image] = deviations.get(image, 0.0) + (found - middle) / (len(parts) * len(values))
    middle = corrupted(table, column, results) or 0.0
    return [middle + len(deviations) * each for each in deviations.values()]


def is_accuracy(table: PaperTable, column: str) -> bool:
    """Whether a column is of certified accuracies, in per cent; of radii otherwise."""
    return column.casefold().startswith(("acc", "macc")) or table.unit.startswith("percent")


def _parts(table: PaperTable, column: str, results: Sequence[Result]) -> list[Summary | None]:
    """What a column is the mean of: certificates of a kind and severity; none of those that are not there."""
    columns, found = KINDS[table.dataset[0]], _kinds(results)
    wanted = [columns[column]] if column in columns else list(columns.values())
    pairs = product(wanted, _severities(table, column))
    return [_part(found[kind], severity) if kind in found else None for kind, severity in pairs]


def _block(part: Summary) -> int:
    """How many images there are before they are corrupted: the severities follow each other."""
    header = part.certificates.header
    if header.get("evaluated_on", {}).get("severity") == 0:
        return int(header["images"]) // len(SEVERITIES)
    return PUBLISHED_BLOCK


def lacking(table: PaperTable, results: Sequence[Result]) -> list[str]:
    """Why columns are unknown: kinds without a file, or with two of the same images, and severities without images."""
    columns, found = KINDS[table.dataset[0]], _kinds(results)
    if not found:
        return ["two files are of the same kind and severity, so none is shown"]
    absent = [kind for kind in columns.values() if kind not in found]
    wanted = {severity for column in table.columns() for severity in _severities(table, column)}
    short = [
        f"{kind} at severity {severity}"
        for kind, each in found.items()
        for severity in sorted(severity for severity in wanted if severity is not None)
        if severity not in each.severities
    ]
    told = {"no complete file of": absent, "no images of": short}
    return [f"{words} {', '.join(names)}" for words, names in told.items() if names]


def all_kinds(table: PaperTable, results: Sequence[Result]) -> bool:
    """Whether results have all that their table is about: of corruptions, every kind and severity."""
    return table.kind != "corruptions" or not lacking(table, results)


def _kinds(results: Sequence[Result]) -> Mapping[str, Corrupted]:
    """The certificates of every kind; none where two files are of the same kind and severity."""
    entries = [Entry(each.source, Summary(each.certificates), folder="files") for each in results if each.certificates]
    return {each.kind: each for some in groups(entries).values() for each in some}


def _part(found: Corrupted, severity: int | None) -> Summary | None:
    return found.whole if severity is None else found.severities.get(severity)


def _severities(table: PaperTable, column: str) -> Sequence[int | None]:
    """The severities that a column is the mean of; none where the images have no severity."""
    if column.startswith(("acr_severity", "acc_severity")):
        return [int(column[-1])]
    _, stated, rest = table.images.partition("severity ")
    if stated:
        return [int(rest[0])]
    return SEVERITIES if table.dataset == ("cifar10_c",) else [None]

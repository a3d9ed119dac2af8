"""Corruptions: ACR and certified accuracy by kind and severity, one certificate file a kind (CAT-RS, Tables 13-25)."""

from collections.abc import Mapping, Sequence

from radii.experiment.corruption_kinds import KINDS
from radii.experiment.table import PaperTable
from radii.experiment.table_runs import Result
from radii.report.corruptions import MEASURES, SEVERITIES, Corrupted, groups, mean
from radii.report.entries import Entry
from radii.report.summary import Summary


def corrupted(table: PaperTable, column: str, results: Sequence[Result]) -> float | None:
    """A column of a table of corruptions, as a share or radius; none where its files are not all there."""
    columns, found = KINDS[table.dataset[0]], _kinds(results)
    wanted = [columns[column]] if column in columns else list(columns.values())
    if any(kind not in found for kind in wanted):
        return None
    accuracy = column.casefold().startswith(("acc", "macc")) or table.unit.startswith("percent")
    value = MEASURES["accuracy" if accuracy else "ACR"][0]
    parts = [_part(found[kind], severity) for kind in wanted for severity in _severities(table, column)]
    known = mean([None if part is None else value(part) for part in parts])
    return known.value if known and known.exact else None


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
    told = {"no file of": absent, "no images of": short}
    return [f"{words} {', '.join(names)}" for words, names in told.items() if names]


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

"""Corruptions: ACR and certified accuracy by kind and severity, one certificate file a kind (CAT-RS, Tables 13-25)."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from radii.experiment.certificates import Certificates
from radii.experiment.table import PaperTable
from radii.experiment.table_runs import Result
from radii.report.summary import Summary

SEVERITIES = 5
NAMES = {
    "Bright": "brightness",
    "Pixel": "pixelate",
    "JPEG": "jpeg_compression",
    "Edges": "canny_edges",
    "Line": "dotted_line",
}
"""The files of kinds that are not named as the papers name the kind."""


def corrupted(table: PaperTable, column: str, results: Sequence[Result]) -> float | None:
    """A column of a table of corruptions, as a share or radius; none where its files are not all there."""
    made = {Path(each.source).stem: each.certificates for each in results if each.certificates}
    severity = _severity(table)
    if column.startswith(("acr_severity", "acc_severity")):
        found = [_value(each, int(column[-1]), accuracy=column.startswith("acc")) for each in made.values()]
    elif column.casefold() in ("macr", "macc"):
        accuracy = column.casefold() == "macc"
        wanted = range(1, SEVERITIES + 1) if severity is None and table.dataset == ("cifar10_c",) else (severity,)
        found = [_value(each, one, accuracy=accuracy) for each in made.values() for one in wanted]
    else:
        chosen = [each for name, each in made.items() if _is_kind(name, column)]
        found = [_value(each, severity, accuracy=table.unit.startswith("percent")) for each in chosen]
    known = [each for each in found if each is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _is_kind(name: str, column: str) -> bool:
    return name == NAMES.get(column, "") or name.split("_")[0] == column.casefold()


def _severity(table: PaperTable) -> int | None:
    """The severity that a table is about; none where it is about all, or its images have none."""
    _, found, rest = table.images.partition("severity ")
    return int(rest[0]) if found else None


def _value(made: Certificates, severity: int | None, *, accuracy: bool) -> float | None:
    """The ACR, or the accuracy at radius 0, of a kind at a severity; a published file holds all five in turn."""
    rows = made.rows if severity is None else [row for row in made.rows if row.index // 10_000 == severity - 1]
    summary = Summary(Certificates(made.name, rows, made.header))
    return None if not rows else summary.at(0.0).value if accuracy else summary.acr

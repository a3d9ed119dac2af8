"""Robustness to corruptions: ACR and accuracy by kind and severity, and their means over the kinds (mACR, mAcc)."""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from radii.published_datasets import SEVERITIES, SIZES
from radii.reports import protocol
from radii.reports.entries import Entry
from radii.reports.summary import Summary, Value, down, shown
from radii.reports.tables import Cell, Table
from radii.runs.certificates import Certificates, Row

PUBLISHED_BLOCK = SIZES["cifar10_c"].test // len(SEVERITIES)
"""The images of a severity of CIFAR-10-C, whose severities follow each other in every file."""
EXACT = 12
"""Digits to which a mean, or a difference, of decimal numbers is exact in floating point."""
HEAD = (
    *("", "images"),
    *("ACR", *(f"ACR {each}" for each in SEVERITIES)),
    *("accuracy", *(f"acc. {each}" for each in SEVERITIES)),
)


class Corrupted(NamedTuple):
    """Certificates of a kind of corruption, as a whole and by severity where that is known."""

    kind: str
    whole: Summary
    severities: Mapping[int, Summary]


def groups(entries: Sequence[Entry]) -> dict[str, list[Corrupted]]:
    """The kinds of corruption of every run or folder of logs that has any, by its name."""
    found: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        if entry.corruption:
            found.setdefault(entry.group, {}).setdefault(entry.corruption, []).append(entry)
    return {
        group: [_merged(kind, same) for kind, same in kinds.items()]
        for group, kinds in found.items()
        if all(_disjoint(same) for same in kinds.values())
    }


def _disjoint(same: Sequence[Entry]) -> bool:
    """Whether entries of one kind are of different severities, so that they may be put together."""
    named = [_stated(entry) for entry in same]
    return len(same) == 1 or (0 not in named and len(set(named)) == len(named))


def _merged(kind: str, same: Sequence[Entry]) -> Corrupted:
    first = same[0].certificates
    rows = [row for entry in same for row in entry.certificates.rows]
    by_severity: dict[int, list[Row]] = {}
    for entry in same:
        severity = _severities(entry)
        for row in entry.certificates.rows:
            by_severity.setdefault(severity(row), []).append(row)
    known = {} if 0 in by_severity else by_severity
    parts = {each: Summary(Certificates(kind, known[each], first.header)) for each in sorted(known)}
    return Corrupted(kind, Summary(Certificates(kind, rows, first.header)), parts)


def _stated(entry: Entry) -> int:
    """The severity that a header names; 0 for all, or where none is named."""
    stated = entry.certificates.header.get("evaluated_on", {}).get("severity", 0)
    return stated if stated in SEVERITIES else 0


def _severities(entry: Entry) -> Callable[[Row], int]:
    """The severity of a row: stated, or from its place in a file of five blocks; 0 where it is unknown."""
    if stated := _stated(entry):
        return lambda _: stated
    block = block_of(entry.certificates)
    return lambda row: row.index // block + 1 if row.index < len(SEVERITIES) * block else 0


def block_of(made: Certificates) -> int:
    """The images of a severity in a file of all five; 0 where it is of one, or does not say."""
    other, images = made.header.get("evaluated_on", {}), made.header.get("images")
    if "severity" in other:
        return images // len(SEVERITIES) if other["severity"] == 0 and isinstance(images, int) else 0
    last = max(row.index for row in made.rows)
    return PUBLISHED_BLOCK if last >= (len(SEVERITIES) - 1) * PUBLISHED_BLOCK else 0


def mean(values: Sequence[Value | None]) -> Value | None:
    """The mean of values; a lower bound where one is, unknown where one is unknown."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    # Rounded: a sum of shares such as 0.1 may end just below its value, and is rounded down when it is shown.
    middle = round(math.fsum(value.value for value in known) / len(known), EXACT)
    return Value(middle, all(value.exact for value in known))


MEASURES: Mapping[str, tuple[Callable[[Summary], Value | None], int, int]] = {
    "ACR": (lambda each: each.known_acr, 4, 0),
    "accuracy": (lambda each: each.known(0.0), 1, 2),
}
"""What is shown of certificates, with its digits and by how many the point is shifted."""


def values(kinds: Sequence[Corrupted], measure: str) -> list[Value | None]:
    """A measure of some kinds, as a whole and at each severity: the means over the kinds."""
    value = MEASURES[measure][0]
    whole = mean([value(each.whole) for each in kinds])
    at = [mean([value(each.severities[s]) if s in each.severities else None for each in kinds]) for s in SEVERITIES]
    return [whole, *at]


def table(kinds: Sequence[Corrupted]) -> Table:
    """A row for every kind, and the last one of their means: mACR and mean accuracy, in all and by severity."""
    rows = [_row(each.kind, [each]) for each in kinds]
    return Table(HEAD, [*rows, _row(f"mean of {len(kinds)} kind{'s' * (len(kinds) > 1)}{_caution(kinds)}", kinds)])


def _caution(kinds: Sequence[Corrupted]) -> str:
    """What is to be said of a mean of kinds that were certified differently, such as with more samples."""
    found = set(protocol.differences([each.whole.certificates for each in kinds])) - {protocol.IMAGES}
    return ", which were certified differently" if found else ""


def _row(name: str, kinds: Sequence[Corrupted]) -> list[Cell]:
    images = f"{sum(each.whole.images for each in kinds):,}"
    cells = [shown(value, *MEASURES[measure][1:]) for measure in MEASURES for value in values(kinds, measure)]
    return [Cell(text) for text in (name, images, *cells)]


def csv_text(found: Mapping[str, Sequence[Corrupted]]) -> str:
    """One row per kind and severity, with six digits, rounded down; severity 0 is all, and `mean` is of the kinds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "kind", "severity", "acr", "accuracy"])
    for name, kinds in found.items():
        for kind, some in [*((each.kind, [each]) for each in kinds), ("mean", kinds)]:
            both = zip(*(values(some, measure) for measure in MEASURES), strict=True)
            for severity, pair in enumerate(both):
                if any(pair):
                    writer.writerow([name, kind, severity, *(_digits(value) for value in pair)])
    return text.getvalue()


def _digits(value: Value | None) -> str:
    return "" if value is None or not value.exact else down(value.value, 6)

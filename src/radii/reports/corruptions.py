"""Robustness to corruptions: ACR and accuracy by kind and severity, and their means over the kinds (mACR, mAcc)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from radii.published_datasets import SEVERITIES, SIZES
from radii.reports import protocol, tables
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary, Value, shown
from radii.reports.tables import Table, text_table
from radii.reports.text import down
from radii.runs.certificates import Certificates, Row

PUBLISHED_BLOCK = SIZES["cifar10_c"].test // len(SEVERITIES)
"""The images of one severity in a file of CIFAR-10-C, which has the five severities one after the other."""
EXACT = 12
"""Digits to which a mean or a difference of decimal numbers is exact in floating point."""
HEAD = (
    *("", "images"),
    *("ACR", *(f"ACR {severity}" for severity in SEVERITIES)),
    *("accuracy", *(f"acc. {severity}" for severity in SEVERITIES)),
)


class Corrupted(NamedTuple):
    """The certificates of one kind of corruption, as a whole and by severity if that is known."""

    kind: str
    whole: Summary
    severities: Mapping[int, Summary]


def groups(entries: Sequence[Entry]) -> dict[str, list[Corrupted]]:
    """Return the kinds of corruption of every run or folder of logs that has any, by its name."""
    by_group: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        if entry.corruption:
            by_group.setdefault(entry.group, {}).setdefault(entry.corruption, []).append(entry)
    return {
        group: [_merge(kind, of_kind) for kind, of_kind in by_kind.items()]
        for group, by_kind in by_group.items()
        if all(_can_merge(of_kind) for of_kind in by_kind.values())
    }


def _can_merge(entries: Sequence[Entry]) -> bool:
    """Return whether the entries of one kind of corruption are all of different severities."""
    stated = [_stated_severity(entry) for entry in entries]
    return len(entries) == 1 or (0 not in stated and len(set(stated)) == len(stated))


def _merge(kind: str, entries: Sequence[Entry]) -> Corrupted:
    header = entries[0].certificates.header
    by_severity: dict[int, list[Row]] = {}
    for entry in entries:
        severity = _severity_of(entry)
        for row in entry.certificates.rows:
            by_severity.setdefault(severity(row), []).append(row)
    known = {} if 0 in by_severity else by_severity
    rows = [row for entry in entries for row in entry.certificates.rows]
    severities = {severity: Summary(Certificates(kind, known[severity], header)) for severity in sorted(known)}
    return Corrupted(kind, Summary(Certificates(kind, rows, header)), severities)


def _stated_severity(entry: Entry) -> int:
    """Return the severity in the header; 0 for all severities, or if none is stated."""
    stated = entry.certificates.header.get("evaluated_on", {}).get("severity", 0)
    return stated if stated in SEVERITIES else 0


def _severity_of(entry: Entry) -> Callable[[Row], int]:
    """Return a function that gives the severity of a row: as stated, or by the row's block, or 0 if unknown."""
    if stated := _stated_severity(entry):
        return lambda _: stated
    block = block_of(entry.certificates)
    return lambda row: row.index // block + 1 if row.index < len(SEVERITIES) * block else 0


def block_of(certificates: Certificates) -> int:
    """Return the images per severity in a file of all five severities; 0 for a file of one, or if unknown."""
    other, images = certificates.header.get("evaluated_on", {}), certificates.header.get("images")
    if "severity" in other:
        return images // len(SEVERITIES) if other["severity"] == 0 and isinstance(images, int) else 0
    last = max(row.index for row in certificates.rows)
    return PUBLISHED_BLOCK if last >= (len(SEVERITIES) - 1) * PUBLISHED_BLOCK else 0


def mean(values: Sequence[Value | None]) -> Value | None:
    """Return the mean of values: a lower bound if one of them is, None if one is unknown."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    # A sum of shares such as 0.1 may end just below its value, and is rounded down when it is shown.
    rounded = round(math.fsum(value.value for value in known) / len(known), EXACT)
    return Value(rounded, all(value.exact for value in known))


MEASURES: Mapping[str, tuple[Callable[[Summary], Value | None], int, int]] = {
    "ACR": (lambda summary: summary.known_acr, 4, 0),
    "accuracy": (lambda summary: summary.known(0.0), 1, 2),
}
"""The metrics that are shown, with their digits and the shift of the decimal point."""


def values(kinds: Sequence[Corrupted], measure: str) -> list[Value | None]:
    """Return the mean of a metric over kinds of corruption: of all images, then at each severity."""
    metric = MEASURES[measure][0]
    whole = mean([metric(kind.whole) for kind in kinds])
    at = [mean([metric(kind.severities[s]) if s in kind.severities else None for kind in kinds]) for s in SEVERITIES]
    return [whole, *at]


def table(kinds: Sequence[Corrupted]) -> Table:
    """Return a row for every kind of corruption, and a last one of their means: mACR and mean accuracy."""
    differing = set(protocol.differences([kind.whole.certificates for kind in kinds])) - {protocol.IMAGES}
    caution = ", which were certified differently" if differing else ""
    last = _row(f"mean of {len(kinds)} kind{'s' * (len(kinds) > 1)}{caution}", kinds)
    return text_table(HEAD, [*(_row(kind.kind, [kind]) for kind in kinds), last])


def _row(name: str, kinds: Sequence[Corrupted]) -> list[str]:
    images = f"{sum(kind.whole.images for kind in kinds):,}"
    cells = [shown(value, *MEASURES[measure][1:]) for measure in MEASURES for value in values(kinds, measure)]
    return [name, images, *cells]


def csv_text(by_group: Mapping[str, Sequence[Corrupted]]) -> str:
    """Write corruptions.csv: one row per kind and severity, with six digits, rounded down.

    Severity 0 stands for all severities, the kind `mean` for the mean over the kinds.
    """

    def rows() -> Iterator[list[str]]:
        for name, kinds in by_group.items():
            for kind, members in [*((corrupted.kind, [corrupted]) for corrupted in kinds), ("mean", kinds)]:
                pairs = zip(*(values(members, measure) for measure in MEASURES), strict=True)
                for severity, pair in enumerate(pairs):
                    if any(pair):
                        yield [name, kind, str(severity), *map(_digits, pair)]

    return tables.csv_text(["name", "kind", "severity", "acr", "accuracy"], rows())


def _digits(value: Value | None) -> str:
    return "" if value is None or not value.exact else down(value.value, 6)

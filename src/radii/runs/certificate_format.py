"""The lines of a certificate file: Cohen's columns, then radii's, each line with a checksum.

A checksum covers the line and the checksum of the previous line, the first one the header, so that edited, removed or
exchanged lines and edited headers are detected. This finds accidental edits; `radii verify` finds the others.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radii.runs import readers
from radii.smoothing.certificate import ABSTAIN

FORMAT = 2
"""The format of new files; those of version 0.1 state none, and have neither digests nor checksums."""
COHEN = ("idx", "label", "predict", "radius", "correct", "time")
COLUMNS = (*COHEN, "samples", "counts", "digest", "checksum")
ENVIRONMENTS = "environments"
"""The part of a header that affects rounding only; it grows when a file is continued on another machine."""


@dataclass(frozen=True)
class Row:
    """The certificate of one image, and its true label."""

    index: int
    label: int
    prediction: int
    radius: float
    seconds: float
    samples: int | None = None
    counts: Mapping[int, int] = field(default_factory=dict)
    """Votes of the classes that got any."""
    digest: str = ""
    """Of the image's pixels and its label; empty in files of other tools and of version 0.1."""
    environments: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    """What the processes that computed it ran on; not part of its line."""

    @property
    def correct(self) -> bool:
        return self.prediction == self.label and self.prediction != ABSTAIN


def identity(header: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the rows of a file: its header without the environments."""
    return {key: value for key, value in header.items() if key != ENVIRONMENTS}


def first_checksum(header: Mapping[str, Any]) -> str:
    """The checksum before the first line: that of the header."""
    return hashlib.sha256(json.dumps(identity(header), sort_keys=True).encode()).hexdigest()[:16]


def sealed(line: str, before: str) -> str:
    """The checksum of a line; `before` is that of the previous line."""
    return hashlib.sha256(f"{before}\t{line}".encode()).hexdigest()[:16]


def to_line(row: Row) -> str:
    """A row as a line without its checksum."""
    counts = " ".join(f"{label}:{count}" for label, count in sorted(row.counts.items()) if count)
    samples = "" if row.samples is None else str(row.samples)
    # repr of a plain float: full precision, so no radius is ever rounded up.
    radius, seconds = repr(float(row.radius)), repr(float(row.seconds))
    cells = (row.index, row.label, row.prediction, radius, int(row.correct), seconds, samples, counts, row.digest)
    return "\t".join(map(str, cells))


def parse(path: Path, text: str, before: str | None = None) -> tuple[list[Row], str | None]:
    """The rows of a file, every checksum checked, and the last checksum; `before` is the one before the first line."""
    first, *lines = text.splitlines() or [""]
    columns = tuple(name.strip() for name in first.split("\t"))
    if missing := [name for name in COHEN if name not in columns]:
        raise ValueError(f"{path} has no column {missing[0]!r}, expected the tab-separated columns {' '.join(COHEN)}")
    rows: dict[int, Row] = {}
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        row = parse_line(where, columns, line)
        if row.index in rows:
            raise ValueError(f"{where}: image {row.index} occurs twice: remove one of the two lines")
        if columns == COLUMNS:
            before = _checked(where, line, before)
        rows[row.index] = row
    return list(rows.values()), before


def _checked(where: str, line: str, before: str | None) -> str:
    """The checksum of a line, checked; without a header the first line's is not."""
    content, _, checksum = line.rpartition("\t")
    if before is not None and checksum != sealed(content, before):
        raise ValueError(
            f"{where} does not have the checksum that it was written with: it, the line before or the header was "
            "edited, or a line was removed; restore the file, or certify again"
        )
    return checksum


def parse_line(where: str, columns: Sequence[str], line: str) -> Row:
    """The row of a line, checked."""
    cells = line.split("\t")
    if len(cells) != len(columns):
        raise ValueError(f"{where} has {len(cells)} cells, expected {len(columns)}: {readers.short(' '.join(columns))}")
    found = dict(zip(columns, cells, strict=True))
    try:
        row = _row(found)
        correct = bool(readers.whole(found["correct"]))
    except ValueError as error:
        problem, wanted = readers.short(error), readers.short(" ".join(columns))
        raise ValueError(f"{where} is not a certificate ({problem}), expected {wanted}") from error
    if not 0 <= row.radius <= readers.MOST_RADIUS:
        most = readers.MOST_RADIUS
        raise ValueError(f"{where} has radius {row.radius}, expected a finite number >= 0, {most:g} at most")
    if correct != row.correct:
        raise ValueError(f"{where} says correct {int(correct)} of label {row.label} and prediction {row.prediction}")
    return row


def _row(found: Mapping[str, str]) -> Row:
    pairs = (pair.partition(":") for pair in found.get("counts", "").split())
    return Row(
        readers.whole(found["idx"]),
        readers.whole(found["label"]),
        readers.whole(found["predict"]),
        float(found["radius"]),
        readers.seconds(found["time"]),
        readers.whole(found["samples"]) if found.get("samples", "").strip() else None,
        {readers.whole(label): readers.whole(count) for label, _, count in pairs},
        found.get("digest", ""),
    )

"""The paired difference of two inputs: both judged on the same images, so that chance that they share cancels."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from radii.reports import protocol
from radii.reports.summary import Summary
from radii.runs.certificates import Row

NORMAL = 1.959963984540054
"""The two-sided 95 % point of the normal distribution."""


class Difference(NamedTuple):
    """How much larger a share is than another, with its 95 % interval."""

    value: float
    lower: float
    upper: float


def differences(one: Summary, other: Summary, radii: Sequence[float]) -> list[Difference | None]:
    """The certified accuracy of `one` minus that of `other` at growing radii; None where they cannot be compared."""
    if protocol.differences([one.certificates, other.certificates]):
        return [None] * len(radii)
    mine, theirs = _proven(one), _proven(other)
    pairs = [(mine[index], theirs[index]) for index in mine]
    more = _counts([(low, high) for high, low in pairs if high > low], radii)
    fewer = _counts([(low, high) for low, high in pairs if high > low], radii)
    return [
        difference(gained, lost, len(pairs)) if one.decided(radius) and other.decided(radius) else None
        for radius, gained, lost in zip(radii, more, fewer, strict=True)
    ]


def difference(gained: int, lost: int, images: int) -> Difference:
    """The difference of two paired shares, with the interval of Agresti and Min (2005)."""
    total = images + 2
    middle, spread = (
        (gained - lost) / total,
        NORMAL * math.sqrt(gained + lost + 1 - (gained - lost) ** 2 / total) / total,
    )
    return Difference((gained - lost) / images, max(-1.0, middle - spread), min(1.0, middle + spread))


def _proven(summary: Summary) -> dict[int, float]:
    """The proven radius of every image; below 0 where none is proven."""
    return {row.index: _radius(row) for row in summary.certificates.rows}


def _radius(row: Row) -> float:
    return row.radius if row.correct else -1.0


def _counts(pairs: Sequence[tuple[float, float]], radii: Sequence[float]) -> list[int]:
    """At each radius, how many pairs (low, high) have low < radius <= high."""
    changes = [0] * (len(radii) + 1)
    for low, high in pairs:
        changes[bisect_right(radii, low)] += 1
        changes[bisect_right(radii, high)] -= 1
    return list(accumulate(changes))[:-1]

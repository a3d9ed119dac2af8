"""What certificates amount to: shares of all images, never of the answered ones."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import NamedTuple

from radii.experiment.certificates import Certificates
from radii.smoothing.certificate import ABSTAIN

STEP = 0.25
"""Between two radii of a table."""
CONFIDENCE = 0.95


class Share(NamedTuple):
    """A number of images out of all."""

    hits: int
    images: int

    @property
    def value(self) -> float:
        return self.hits / self.images

    def interval(self, failure: float = 0.0) -> tuple[float, float]:
        """Where the share of all possible test images lies (Clopper & Pearson, 95 %).

        The lower end allows for certificates that are wrong with probability `failure`: of a true share T they
        show at most T + failure (1 - T).
        """
        from radii.smoothing.bounds import binomial_lower, binomial_upper

        side = (1 - CONFIDENCE) / 2
        lower = (binomial_lower(self.hits, self.images, side) - failure) / (1 - failure)
        return max(0.0, lower), binomial_upper(self.hits, self.images, side)


@dataclass(frozen=True)
class Summary:
    """The certified accuracy of one certificate file, at any radius."""

    certificates: Certificates

    @cached_property
    def _proven(self) -> list[float]:
        return sorted(row.radius for row in self.certificates.rows if row.correct)

    @property
    def images(self) -> int:
        return len(self.certificates.rows)

    def at(self, radius: float) -> Share:
        """The images that are answered rightly, with a certificate of at least this radius."""
        return Share(len(self._proven) - bisect_left(self._proven, radius), self.images)

    def interval(self, radius: float) -> tuple[float, float]:
        """The 95 % interval of the certified accuracy over the choice of test images."""
        return self.at(radius).interval(self.certificates.failure or 0.0)

    @property
    def clean(self) -> Share:
        """The images that are answered rightly as they are."""
        return self.at(0.0)

    @property
    def abstained(self) -> Share:
        return Share(sum(row.prediction == ABSTAIN for row in self.certificates.rows), self.images)

    @cached_property
    def acr(self) -> float:
        """The average certified radius: a wrong answer or an abstention counts as radius 0."""
        return math.fsum(self._proven) / self.images

    @cached_property
    def largest(self) -> float:
        return max(row.radius for row in self.certificates.rows)

    @property
    def samples(self) -> int | None:
        """Forward passes spent in all, where every row tells."""
        counted = [row.samples for row in self.certificates.rows if row.samples is not None]
        return sum(counted) if len(counted) == self.images else None

    @property
    def seconds(self) -> float:
        """Time spent in all."""
        return math.fsum(row.seconds for row in self.certificates.rows)


def in_words(summary: Summary) -> str:
    """What a certificate file says, in a line."""
    return (
        f"{summary.images} images, {down(summary.clean.value, 1, 2)}% certified and correct, "
        f"average certified radius {down(summary.acr, 3)}"
    )


def radii_of(inputs: Iterable[Summary]) -> list[float]:
    """The radii of a table: 0, 0.25, ... up to the largest there is, and to 0.75 at least."""
    largest = max(summary.largest for summary in inputs)
    return [STEP * number for number in range(max(4, math.floor(largest / STEP) + 1))]


def thinned(radii: Sequence[float], most: int) -> list[float]:
    """The radii, every second or fifth or so where there are more than a page can show."""
    return list(radii[:: math.ceil(len(radii) / most)])


def down(value: float, digits: int, shift: int = 0) -> str:
    """A number, its point shifted to the right, as text that never claims more."""
    return _text(value, digits, shift, ROUND_FLOOR)


def up(value: float, digits: int, shift: int = 0) -> str:
    """A number, its point shifted to the right, as text that never claims less."""
    return _text(value, digits, shift, ROUND_CEILING)


def _text(value: float, digits: int, shift: int, rounding: str) -> str:
    # Through repr: 0.29 is meant as 0.29, not as the double just under it.
    return str(Decimal(repr(value)).scaleb(shift).quantize(Decimal(1).scaleb(-digits), rounding))

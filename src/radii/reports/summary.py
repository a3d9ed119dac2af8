"""Certified accuracy and ACR of certificates: shares of all images, abstentions included."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import NamedTuple

from radii.reports import protocol
from radii.runs.certificates import Certificates
from radii.smoothing.certificate import ABSTAIN

STEP = 0.25
"""Between two radii of a table."""
MOST_RADII = 400
"""Of a table; radii so large that they would need more are further apart."""
CONFIDENCE = 0.95
UNKNOWN = "–"  # noqa: RUF001


class Value(NamedTuple):
    """A number computed from certificates, or a lower bound of it."""

    value: float
    exact: bool = True


class Share(NamedTuple):
    """A number of images out of all."""

    hits: float
    images: int

    @property
    def value(self) -> float:
        return self.hits / self.images

    def interval(self, failure: float = 0.0) -> tuple[float, float]:
        """The interval of the share of all possible test images (Clopper & Pearson, 95 %).

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
        """The images that are certified and correct at this radius; at an untested radius, those at larger ones."""
        return Share(len(self._proven) - bisect_left(self._proven, radius), self.images)

    def interval(self, radius: float) -> tuple[float, float]:
        """The 95 % interval of the certified accuracy over the choice of test images."""
        return self.at(radius).interval(self.certificates.failure or 0.0)

    @cached_property
    def asked(self) -> tuple[float, ...] | None:
        """The radii that were tested; None if the certifier bounds the radius itself."""
        return protocol.asked(self.certificates)

    def decided(self, radius: float) -> bool:
        return self.asked is None or radius in self.asked

    def known(self, radius: float) -> Value | None:
        """The certified accuracy at a radius; at an untested one, the bound that larger radii give, if any."""
        value = self.at(radius).value
        return Value(value, self.decided(radius)) if self.decided(radius) or value else None

    @property
    def known_acr(self) -> Value | None:
        """The average certified radius; a lower bound where only some radii were tested."""
        return Value(self.acr, self.asked is None) if self.asked is None or self.acr else None

    @property
    def known_abstentions(self) -> Share | None:
        """None where only larger radii, or only the label, were tested: the rest may be wrong predictions as well."""
        return self.abstained if self.decided(0.0) and not protocol.label_known(self.certificates) else None

    @property
    def clean(self) -> Share:
        """The images that are classified correctly without perturbation."""
        return self.at(0.0)

    @property
    def abstained(self) -> Share:
        return Share(sum(row.prediction == ABSTAIN for row in self.certificates.rows), self.images)

    @cached_property
    def acr(self) -> float:
        """The average of the proven radii: a wrong prediction or an abstention counts as radius 0."""
        return math.fsum(self._proven) / self.images

    @cached_property
    def largest(self) -> float:
        return max(*(row.radius for row in self.certificates.rows), *(self.asked or (0.0,)))

    @property
    def samples(self) -> int | None:
        """Forward passes spent in all, where every row records it."""
        counted = [row.samples for row in self.certificates.rows if row.samples is not None]
        return sum(counted) if len(counted) == self.images else None

    @property
    def seconds(self) -> float:
        """Time spent in all."""
        return math.fsum(row.seconds for row in self.certificates.rows)


def in_words(summary: Summary) -> str:
    """A certificate file in one line that every terminal can show."""
    shares = [f"{down(summary.at(radius).value, 1, 2)}%{where}" for radius, where in _asked_in_words(summary)]
    label = ", the label known" if protocol.label_known(summary.certificates) else ""
    acr = shown(summary.known_acr, 3).replace(UNKNOWN, "-").replace("≥", "at least")
    return f"{summary.images} images, {', '.join(shares)} certified and correct{label}, average certified radius {acr}"


def _asked_in_words(summary: Summary) -> list[tuple[float, str]]:
    radii = summary.asked
    return [(0.0, "")] if radii is None else [(radius, f" at radius {radius_text(radius)}") for radius in radii]


def shown(value: Value | None, digits: int, shift: int = 0) -> str:
    """A value as text, rounded down: a dash if it is unknown, a bound marked as such."""
    if value is None:
        return UNKNOWN
    return ("" if value.exact else "≥ ") + down(value.value, digits, shift)


def radius_text(radius: float) -> str:
    """A radius with two digits, or with as many as it has."""
    return f"{radius:.2f}" if round(radius, 2) == radius else repr(radius)


def steps_of(inputs: Sequence[Summary]) -> list[float]:
    """0, 0.25, ... up to the largest radius there is, and three steps at least; smaller steps where sigma is small."""
    sigma = max((each.certificates.sigma or STEP for each in inputs), default=STEP)
    step = next((step for step in (STEP, 0.1, 0.05, 0.02) if step <= 1.1 * sigma), 0.01)
    steps = max(4, math.floor(max(summary.largest for summary in inputs) / step) + 1)
    return [round(step * number, 6) for number in range(0, steps, math.ceil(steps / MOST_RADII))]


def radii_of(inputs: Sequence[Summary], most: int = MOST_RADII) -> list[float]:
    """The radii of a table: every tested one, and steps between them, about `most` in all."""
    asked = {radius for summary in inputs for radius in summary.asked or ()}
    steps = [radius for radius in steps_of(inputs) if radius not in asked]
    return sorted({*asked, *thinned(steps, max(4, most - len(asked)))})


def thinned(radii: Sequence[float], most: int) -> list[float]:
    """At most about `most` of the radii, evenly chosen."""
    return list(radii[:: math.ceil(len(radii) / most) or 1])


def down(value: float, digits: int, shift: int = 0) -> str:
    """A number, its point shifted to the right, as text, rounded down."""
    return _text(value, digits, shift, ROUND_FLOOR)


def up(value: float, digits: int, shift: int = 0) -> str:
    """A number, its point shifted to the right, as text, rounded up."""
    return _text(value, digits, shift, ROUND_CEILING)


def _text(value: float, digits: int, shift: int, rounding: str) -> str:
    # Through repr: 0.29 is meant as 0.29, not as the double just under it.
    return str(Decimal(repr(value)).scaleb(shift).quantize(Decimal(1).scaleb(-digits), rounding))

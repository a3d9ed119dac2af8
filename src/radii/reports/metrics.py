"""Certified accuracy, ACR and their intervals; paired differences; accuracy without noise; training times."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from statistics import fmean, stdev
from typing import Any, NamedTuple

from radii.reports import protocol
from radii.reports.text import UNKNOWN, down, duration, radius_text
from radii.runs.certificates import Certificates
from radii.runs.run import Run
from radii.smoothing.certificate import ABSTAIN

STEP = 0.25
"""The step between two radii of a table."""
MOST_RADII = 400
"""The most radii of a table; for large radii the steps are larger."""
CONFIDENCE = 0.95
NORMAL = 1.959963984540054
"""The two-sided 95 % point of the normal distribution."""


class Value(NamedTuple):
    """A number computed from certificates."""

    value: float
    exact: bool = True
    """False for a lower bound."""


class Share(NamedTuple):
    """A number of images out of all."""

    hits: float
    images: int

    @property
    def value(self) -> float:
        return self.hits / self.images

    def interval(self, failure: float = 0.0) -> tuple[float, float]:
        """Return the 95 % interval of the share over all possible test images (Clopper & Pearson).

        The lower end allows for certificates that are wrong with probability `failure`: if the true share is T, they
        show at most T + failure (1 - T).
        """
        from radii.smoothing.bounds import binomial_lower, binomial_upper

        side = (1 - CONFIDENCE) / 2
        lower = (binomial_lower(self.hits, self.images, side) - failure) / (1 - failure)
        return max(0.0, lower), binomial_upper(self.hits, self.images, side)


@dataclass(frozen=True)
class Summary:
    """The metrics of one certificate file; an abstention counts as not certified."""

    certificates: Certificates

    @cached_property
    def _proven(self) -> list[float]:
        """The radii of the correct predictions, sorted."""
        return sorted(row.radius for row in self.certificates.rows if row.correct)

    @property
    def images(self) -> int:
        return len(self.certificates.rows)

    def at(self, radius: float) -> Share:
        """Count the images that are certified and correct at a radius; if it was not tested, at the next larger one."""
        return Share(len(self._proven) - bisect_left(self._proven, radius), self.images)

    def interval(self, radius: float) -> tuple[float, float]:
        """Return the 95 % interval of the certified accuracy over the choice of test images."""
        return self.at(radius).interval(self.certificates.failure or 0.0)

    @cached_property
    def tested_radii(self) -> tuple[float, ...] | None:
        """The radii that were tested; None if the certifier bounds the radius itself."""
        return protocol.tested_radii(self.certificates)

    def decided(self, radius: float) -> bool:
        """Return whether the certified accuracy at this radius is known exactly."""
        return self.tested_radii is None or radius in self.tested_radii

    def known(self, radius: float) -> Value | None:
        """Return the certified accuracy at a radius; if it was not tested, the bound from larger radii, if any."""
        value = self.at(radius).value
        return Value(value, self.decided(radius)) if self.decided(radius) or value else None

    @property
    def known_acr(self) -> Value | None:
        """The average certified radius; a lower bound if only some radii were tested."""
        return Value(self.acr, self.tested_radii is None) if self.tested_radii is None or self.acr else None

    @property
    def known_abstentions(self) -> Share | None:
        """The abstentions; None if only larger radii, or only the label, were tested.

        Then abstentions look like wrong predictions.
        """
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
        """The average certified radius: a wrong prediction or an abstention counts as radius 0."""
        return math.fsum(self._proven) / self.images

    @cached_property
    def largest(self) -> float:
        """The largest radius, certified or tested."""
        return max(*(row.radius for row in self.certificates.rows), *(self.tested_radii or (0.0,)))

    @property
    def samples(self) -> int | None:
        """The forward passes of all images; None unless every row records them."""
        counted = [row.samples for row in self.certificates.rows if row.samples is not None]
        return sum(counted) if len(counted) == self.images else None

    @property
    def seconds(self) -> float:
        """The certification time of all images."""
        return math.fsum(row.seconds for row in self.certificates.rows)

    def by_class(self) -> Mapping[int, "Summary"]:
        """Return a summary of the images of each class, by label."""
        name, header = self.certificates.name, self.certificates.header
        labels = sorted({row.label for row in self.certificates.rows})
        rows = {label: [row for row in self.certificates.rows if row.label == label] for label in labels}
        return {label: Summary(Certificates(name, rows[label], header)) for label in labels}


def in_words(summary: Summary) -> str:
    """Describe a certificate file in one line of ASCII."""
    if (radii := summary.tested_radii) is None:
        shares = [f"{down(summary.clean.value, 1, 2)}%"]
    else:
        shares = [f"{down(summary.at(radius).value, 1, 2)}% at radius {radius_text(radius)}" for radius in radii]
    label = ", the label known" if protocol.label_known(summary.certificates) else ""
    acr = shown(summary.known_acr, 3).replace(UNKNOWN, "-").replace("≥", "at least")
    norm = protocol.norm_name(summary.certificates)
    radius = "radius" if norm == "l2" else f"radius in {norm}"
    return (
        f"{summary.images} images, {', '.join(shares)} certified and correct{label}, average certified {radius} {acr}"
    )


def shown(value: Value | None, digits: int, shift: int = 0) -> str:
    """Format a value, rounded down: a dash if it is unknown, ≥ before a lower bound."""
    if value is None:
        return UNKNOWN
    return ("" if value.exact else "≥ ") + down(value.value, digits, shift)


def steps_of(summaries: Sequence[Summary]) -> list[float]:
    """Return radii 0, 0.25, ... up to the largest, at least four; the steps are smaller if sigma is small."""
    sigma = max((summary.certificates.sigma or STEP for summary in summaries), default=STEP)
    step = next((step for step in (STEP, 0.1, 0.05, 0.02) if step <= 1.1 * sigma), 0.01)
    steps = max(4, math.floor(max(summary.largest for summary in summaries) / step) + 1)
    return [round(step * number, 6) for number in range(0, steps, math.ceil(steps / MOST_RADII))]


def radii_of(summaries: Sequence[Summary], most: int = MOST_RADII) -> list[float]:
    """Choose the radii of a table: every tested one, and steps where something is known, about `most` in all."""
    tested = {radius for summary in summaries for radius in summary.tested_radii or ()}
    largest = max(tested) if all(summary.tested_radii is not None for summary in summaries) else math.inf
    steps = [radius for radius in steps_of(summaries) if radius not in tested and radius < largest]
    return sorted({*tested, *thinned(steps, max(4, most - len(tested)))})


def thinned(radii: Sequence[float], most: int) -> list[float]:
    """Choose about `most` of the radii, evenly."""
    return list(radii[:: math.ceil(len(radii) / most) or 1])


class Difference(NamedTuple):
    """The difference of two shares, with its 95 % interval."""

    value: float
    lower: float
    upper: float


def paired_differences(one: Summary, other: Summary, radii: Sequence[float]) -> list[Difference | None]:
    """Return the certified accuracy of `one` minus that of `other` at increasing radii.

    None where a radius was not tested, or if the two were not certified in the same way. Both certify the same images,
    so the random choice of images cancels out.
    """
    if protocol.differences([one.certificates, other.certificates]):
        return [None] * len(radii)
    first, second = _radius_by_image(one), _radius_by_image(other)
    pairs = [(first[index], second[index]) for index in first]
    gains = _count_between([(low, high) for high, low in pairs if high > low], radii)
    losses = _count_between([(low, high) for low, high in pairs if high > low], radii)
    return [
        paired_difference(gained, lost, len(pairs)) if one.decided(radius) and other.decided(radius) else None
        for radius, gained, lost in zip(radii, gains, losses, strict=True)
    ]


def paired_difference(gained: int, lost: int, images: int) -> Difference:
    """Return the difference of two paired shares, with the interval of Agresti and Min (2005)."""
    total = images + 2
    middle = (gained - lost) / total
    margin = NORMAL * math.sqrt(gained + lost + 1 - (gained - lost) ** 2 / total) / total
    return Difference((gained - lost) / images, max(-1.0, middle - margin), min(1.0, middle + margin))


def _radius_by_image(summary: Summary) -> dict[int, float]:
    """Return the certified radius of every image by its index; -1 for a wrong prediction or an abstention."""
    return {row.index: row.radius if row.correct else -1.0 for row in summary.certificates.rows}


def _count_between(pairs: Sequence[tuple[float, float]], radii: Sequence[float]) -> list[int]:
    """Count at each radius the pairs (low, high) with low < radius <= high."""
    changes = [0] * (len(radii) + 1)
    for low, high in pairs:
        changes[bisect_right(radii, low)] += 1
        changes[bisect_right(radii, high)] -= 1
    return list(accumulate(changes))[:-1]


def without_noise(run: Run) -> Share | None:
    """Return the share of test images that the network alone gets right without noise; None if not measured."""
    check = run.check()
    return right_share(check) if check else None


def right_share(measured: Mapping[str, Any]) -> Share:
    """Return the share of right answers in a measurement of `Run.check`."""
    return Share(measured["right"], measured["images"])


class EpochTime(NamedTuple):
    """The mean time of an epoch of training, and half its 95 % interval over the epochs."""

    seconds: float
    margin: float | None
    epochs: int
    total: float

    def __str__(self) -> str:
        return duration(self.seconds) + ("" if self.margin is None else f" ± {self.margin:.2g} s")


def epoch_time(run: Run) -> EpochTime | None:
    """Return the time of a run's epochs, from training.csv; None before the first one has ended."""
    seconds = [float(row["seconds"]) for row in run.history()]
    if not seconds:
        return None
    return EpochTime(fmean(seconds), mean_margin(seconds), len(seconds), math.fsum(seconds))


def mean_margin(values: Sequence[float]) -> float | None:
    """Return half the 95 % interval of a mean, by Student's t; None for a single value."""
    count = len(values)
    if count < 2:
        return None
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * stdev(values) / math.sqrt(count)

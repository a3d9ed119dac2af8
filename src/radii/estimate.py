"""Estimates of time: a number of seconds and the range that it may lie in."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Estimate(NamedTuple):
    """Seconds that work will take, with a range."""

    seconds: float
    low: float
    high: float

    def times(self, factor: float) -> "Estimate":
        """Return the estimate of `factor` times the work."""
        return Estimate(*(factor * value for value in self))


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Return the estimate of several works, one after the other."""
    columns = list(zip(*estimates, strict=True))
    return Estimate(*(sum(column) for column in columns)) if columns else Estimate(0.0, 0.0, 0.0)


OnEstimate = Callable[[Estimate], None]
"""Called with the estimated time before work begins; it may raise to refuse."""

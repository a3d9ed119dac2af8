"""Estimates of time: a number of seconds and the range that it may lie in."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

SECONDS_BETWEEN_MARKS = 0.2
MARKS = 150
"""The number of marks that the speed is computed from: half a minute, or longer if work is reported seldom."""


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


class Work(NamedTuple):
    """The samples that are counted so far, and the range of those that are left."""

    samples: int
    seconds: float
    """The time that workers took for them, all together."""
    least: float
    most: float
    """Infinite if the range would be too wide to be useful."""


OnWork = Callable[[Callable[[], Work]], None]
"""Called whenever samples were counted, with a function that sums them up."""


class TimeLeft:
    """The time that work still takes, from how fast samples were counted lately.

    Finished images alone would mislead: many are in flight before the first one is finished.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=MARKS)
        self._left: tuple[float, float] | None = None

    def update(self, work: Callable[[], Work], now: float) -> None:
        """Record the work at a moment; a few times a second is enough."""
        if self._marks and now - self._marks[-1][0] <= SECONDS_BETWEEN_MARKS:
            return
        samples, seconds, least, most = work()
        if not self._marks:  # when the first worker began: loading the model is not part of the speed
            self._marks.append((now - seconds, 0))
        then, before = self._marks[0]
        self._marks.append((now, samples))
        if samples > before:
            pace = (now - then) / (samples - before)
            self._left = pace * least, pace * most

    def range(self) -> tuple[float, float] | None:
        """Return the fewest and the most seconds left; None before the first work."""
        return self._left


def mean_samples(finished: Mapping[int, int], unfinished: Iterable[int], most_samples: float) -> tuple[float, float]:
    """Return a range of the mean samples of an image where some are not finished (Kaplan and Meier 1958).

    `finished` counts images by their samples, `unfinished` are the samples that others have asked for so far. Those
    that have asked for more than any finished one may need no more, or as many as `most_samples`.
    """
    begun = Counter(unfinished)
    left, share, mean, before = begun.total() + sum(finished.values()), 1.0, 0.0, 0
    for samples in sorted({*finished, *begun}):
        mean += share * (samples - before)
        share *= 1 - finished.get(samples, 0) / left
        left -= finished.get(samples, 0) + begun[samples]
        before = samples
    return mean, mean + share * max(0.0, most_samples - before) if share else mean

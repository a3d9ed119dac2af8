"""Say how long work will take before it begins; ask on a terminal if it takes hours."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from radii.cli.app import console, hint
from radii.estimate import Estimate
from radii.reports.text import duration

WORTH_SAYING = 60.0
"""Work that takes fewer seconds than this is not announced."""
LONG = 2 * 3600.0
"""Work that takes more seconds than this is asked about, if somebody can answer."""


FASTER, SLOWER = 1 / 3, 3.0
"""The range of an estimate from one image, as multiples: images differ."""


class Declined(KeyboardInterrupt):
    """The user does not want to wait so long."""


class Pausable(Protocol):
    """A progress bar that a question can interrupt."""

    def paused(self) -> AbstractContextManager[None]: ...


class Counter(Pausable, Protocol):
    """A progress bar of images."""

    def __call__(self, done: int, total: int) -> None: ...


def in_words(estimate: Estimate) -> str:
    """Return an estimate as text, with its range: about 3 min (2 min to 5 min)."""
    return f"about {duration(estimate.seconds)} ({duration(estimate.low)} to {duration(estimate.high)})"


def announce(bar: Pausable, cheaper: str = "") -> Callable[[Estimate], None]:
    """Return a callback that prints an estimate of more than a minute, and on a terminal asks about one of hours.

    `cheaper` is the command or the option that takes less time.
    """

    def on_estimate(estimate: Estimate) -> None:
        if estimate.high < WORTH_SAYING:
            return
        less = f"; sooner: {cheaper}" if cheaper and estimate.seconds > LONG / 4 else ""
        with bar.paused():
            hint(f"{in_words(estimate)}{less}")
            if estimate.seconds > LONG and can_answer() and not _wants_to_wait():
                raise Declined

    return on_estimate


def announce_rest(bar: Counter, cheaper: str = "") -> Callable[[int, int], None]:
    """Return a callback that moves a bar, and announces the time left when the second image is done.

    The first image also loads the model.
    """
    say, times = announce(bar, cheaper), list[float]()

    def on_image(done: int, total: int) -> None:
        bar(done, total)
        times.append(time.monotonic())
        if len(times) == 2:
            seconds = (times[1] - times[0]) * (total - done)
            say(Estimate(seconds, FASTER * seconds, SLOWER * seconds))

    return on_image


def can_answer() -> bool:
    """Return whether a user at a terminal sees hints and can answer."""
    return sys.stdin.isatty() and console.is_terminal and not console.quiet


def _wants_to_wait() -> bool:
    return console.input("Start anyway? [y/N] ", markup=False).strip().lower() in ("y", "yes")

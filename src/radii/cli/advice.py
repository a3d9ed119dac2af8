"""The advice to test given radii, where certifying all radii would take long."""

import os
import shlex
import time
from collections.abc import Callable, Sequence

from radii.cli.app import hint
from radii.report.facts import duration
from radii.runs.certificates import Row

LONG = 120.0
"""Seconds of certification that are worth a remark."""
FIRST = 1.0
"""Seconds before the first remark: rows of an earlier call are through by then."""


class Advised:
    """Passes on what is certified, and says once how long the rest takes and which command takes less."""

    def __init__(
        self, bar: Callable[[int, Row | None], None], typed: Sequence[str], sigma: float, workers: int | None
    ) -> None:
        self.bar, self.typed, self.sigma = bar, typed, sigma
        self.workers = workers or os.cpu_count() or 1
        self.began, self.seen = time.monotonic(), 0
        # Who names a certifier or its fields has chosen, and a machine takes no advice.
        self.silent = any(option in typed for option in ("--with", "--set", "--json"))

    def __call__(self, total: int, row: Row | None) -> None:
        self.bar(total, row)
        if row is None:
            return
        self.seen += 1
        left = (total - self.seen) * row.seconds / self.workers
        if not self.silent and time.monotonic() - self.began > FIRST:
            self.silent = True
            if left > LONG:
                hint(f"about {duration(left)} left; far fewer samples, for given radii: {self._command()}")

    def _command(self) -> str:
        radii = f"0,{self.sigma:g},{2 * self.sigma:g}"
        return shlex.join(["radii", *self.typed, "--with", "sequential", "--radii", radii])

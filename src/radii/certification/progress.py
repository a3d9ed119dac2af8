"""A line of progress on a terminal's standard error, for programs that certify a dataset."""

import sys
import time
from types import TracebackType
from typing import TextIO

from radii.reports.text import duration
from radii.runs.certificates import Row

PAUSE = 0.1
"""Seconds between two lines."""


class ProgressLine:
    """Images done, the time left and how many are certified and correct, in a line that is written over."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.images = self.correct = self.begun_with = 0
        self.began = self.written = time.monotonic()
        self.width = 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        if self.width:
            self.stream.write("\n")

    def __call__(self, total: int, row: Row | None) -> None:
        """Count an image; the first call, before any, has none."""
        if row is not None:
            self.images += 1
            self.correct += row.correct
        now = time.monotonic()
        if row is None or self.images == total or now - self.written >= PAUSE:
            self.written = now
            self._write(f"certifying: {self.images} of {total} images, {self.correct} certified and correct", total)

    def _write(self, text: str, total: int) -> None:
        if 0 < self.images < total:
            text += f", {duration((time.monotonic() - self.began) / self.images * (total - self.images))} left"
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)

"""Small figures as SVG text that takes the colours of the page it is in."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from radii.reports.text import plain

WIDTH, HEIGHT = 720.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 14.0, 52.0
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)

Point = tuple[float, float]


def text(content: str) -> str:
    """Text as HTML that shows it as it is."""
    return escape(plain(content))


def step_for(largest: float, most: int) -> float:
    """The smallest round step with which at most `most` steps reach a value."""
    least = max(largest, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * nice for nice in NICE if power * nice >= least * (1 - 1e-9))


def ticks_up_to(largest: float, most: int = 8) -> list[float]:
    """Round numbers from 0 to a value."""
    step = step_for(largest, most)
    return [step * number for number in range(math.floor(largest / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Chart:
    """The frame of a figure: what its two axes show, and how values become places."""

    title: str
    end: Point
    """The largest values of the axes."""
    start: Point = (0.0, 0.0)
    height: float = HEIGHT
    logarithmic: bool = False
    """Whether the axis to the right is."""

    def x(self, value: float) -> float:
        low, high, value = (self._scale(each) for each in (self.start[0], self.end[0], value))
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        low, high = self.start[1], self.end[1]
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)

    def _scale(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def line(self, points: Iterable[Point]) -> str:
        """The path through points."""
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)

    def steps(self, points: Sequence[Point]) -> str:
        """The path that holds the value of the right end over every step, so that none is above it."""
        (x, y), *rest = points
        parts, last = [f"M{self.x(x):.1f} {self.y(y):.1f}"], y
        for number, (x, y) in enumerate(rest):
            if y != last:
                parts.append(f"V{self.y(y):.1f}")
            if number + 1 == len(rest) or rest[number + 1][1] != y:
                parts.append(f"H{self.x(x):.1f}")
            last = y
        return "".join(parts)

    def svg(
        self,
        drawn: str,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]],
        x_title: str,
        extra: str = "",
    ) -> str:
        """The figure, with `drawn` inside its axes."""
        bottom = self.height - BOTTOM
        across = "".join(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(value):.1f}" y2="{self.y(value):.1f}"/>'
            f'<text class="tick" x="{LEFT - 8}" y="{self.y(value) + 4:.1f}" text-anchor="end">{text(label)}</text>'
            for value, label in y_ticks
        )
        along = "".join(
            f'<text class="tick {"odd" if number % 2 else ""}" x="{self.x(value):.1f}" y="{bottom + 24:.1f}" '
            f'text-anchor="middle">{text(label)}</text>'
            for number, (value, label) in enumerate(x_ticks)
        )
        axis = f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
        name = (
            f'<text class="tick name" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{self.height - 4:.0f}" '
            f'text-anchor="middle">{text(x_title)}</text>'
        )
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH:.0f} {self.height:.0f}" role="img" aria-label="{text(self.title)}"'
            f"{extra}>{across}{along}{axis}{name}{drawn}</svg>"
        )


def bars(shares: Sequence[float], label: str, width: float = 160.0, height: float = 34.0) -> str:
    """A small histogram."""
    largest, step = max(shares) or 1.0, width / len(shares)
    drawn = "".join(
        f'<rect x="{number * step:.1f}" y="{height - size:.1f}" width="{step - 1:.1f}" height="{size:.1f}"/>'
        for number, share in enumerate(shares)
        if (size := max(1.0, share / largest * height) if share else 0.0)
    )
    ground = f'<line class="axis" x1="0" x2="{width:.0f}" y1="{height}" y2="{height}"/>'
    return (
        f'<svg class="bars" viewBox="0 0 {width:.0f} {height + 1:.0f}" width="{width:.0f}" height="{height + 1:.0f}" '
        f'role="img" aria-label="{text(label)}">{drawn}{ground}</svg>'
    )

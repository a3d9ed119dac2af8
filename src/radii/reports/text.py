"""Format numbers and durations, escape text for Markdown, LaTeX, CSV and HTML, and fill templates of pages."""

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from html import escape
from pathlib import Path
from typing import Any

UNKNOWN = "–"  # noqa: RUF001
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
NARROW = 1.3
"""The ends of a range of time that is shown as one number, at most this many times apart."""
MARKDOWN = re.compile(r"[\\`*_\[\]<>|~&$]")
LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    # At the start of a row, LaTeX would take these as arguments of the \\ before it.
    **{character: f"{{{character}}}" for character in "[]*"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}"},
    **{"σ": r"$\sigma$", "≥": r"$\geq$", "±": r"$\pm$", "×": r"$\times$", "–": "--", "’": "'"},  # noqa: RUF001
}


def down(value: float, digits: int, shift: int = 0) -> str:
    """Format a number, multiplied by 10**shift, rounded down."""
    return _rounded(value, digits, shift, ROUND_FLOOR)


def up(value: float, digits: int, shift: int = 0) -> str:
    """Format a number, multiplied by 10**shift, rounded up."""
    return _rounded(value, digits, shift, ROUND_CEILING)


def _rounded(value: float, digits: int, shift: int, rounding: str) -> str:
    # Through repr, because 0.29 means 0.29 and not the double just below it.
    return str(Decimal(repr(value)).scaleb(shift).quantize(Decimal(1).scaleb(-digits), rounding))


def percent_range(interval: tuple[float, float]) -> str:
    """Format an interval of shares in per cent, rounded outwards."""
    lower, upper = interval
    return f"{down(lower, 1, 2)}–{up(upper, 1, 2)}"  # noqa: RUF001


def radius_text(radius: float) -> str:
    """Format a radius with two digits, or with all its digits if it has more."""
    return f"{radius:.2f}" if round(radius, 2) == radius else repr(radius)


def class_name(label: int, names: Sequence[str]) -> str:
    """Return the name of a class, or its number where it has no name."""
    return names[label] if 0 <= label < len(names) else f"class {label}"


def rounded_down(value: float) -> float:
    """Round a number down to four digits, for JSON and plain data."""
    return float(down(value, 4))


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def left_text(least: float, most: float) -> str:
    """Format a range of the seconds left; nearly equal ends as one."""
    if most == math.inf:
        return f"over {duration(least)} left"
    return f"{duration(most)} left" if most <= NARROW * least else f"{duration(least)} to {duration(most)} left"


def ordinal(number: int) -> str:
    """Format a number as 1st, 2nd, 3rd, 4th, ..."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def plain(text: str) -> str:
    """Escape control characters, which could move a cursor or break a row."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def markdown_text(text: str) -> str:
    """Escape text for Markdown."""
    return MARKDOWN.sub(r"\\\g<0>", plain(text))


def latex_text(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(LATEX.get(character, character) for character in plain(text))


def html_text(text: str) -> str:
    """Escape text for HTML."""
    return escape(plain(text))


def csv_cell(text: str) -> str:
    """Escape text for a CSV cell; an apostrophe before a formula keeps spreadsheets from computing it."""
    formula = text[:1] in ("=", "+", "-", "@", "\t", "\r") and not NUMBER.fullmatch(text)
    return plain(f"'{text}" if formula else text)


def render(template: Path, **values: Any) -> str:
    """Fill a template; every value is escaped unless the template marks it as HTML with `safe`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = lambda words: html_text(words).replace(" %", "&nbsp;%")
    return environment.get_template(template.name).render(values)

"""A table as text for a terminal."""

import re

from radii.reports.summary import UNKNOWN
from radii.reports.tables import Table
from radii.reports.text import plain

NUMBER = re.compile(r"[≥+\- ]*[\d.,]+( ± [\d.]+)?( [%×])?")  # noqa: RUF001


def aligned(table: Table) -> str:
    """The table as lines of columns, words aligned left and numbers right."""
    texts = [[*map(plain, table.head)], *([plain(cell.text) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    words = has_words(table)
    head, *rows = ["  ".join(map(_padded, row, widths, words)).rstrip() for row in texts]
    return "\n".join([head, "  ".join("-" * width for width in widths), *rows]) + "\n"


def has_words(table: Table) -> list[bool]:
    """Of every column whether it holds more than numbers; the first one says what a row is about."""
    columns = zip(*([cell.text for cell in row] for row in table.rows), strict=True)
    found = [number < 1 or not all(map(_is_number, texts)) for number, texts in enumerate(columns)]
    return found or [True] * len(table.head)


def _is_number(text: str) -> bool:
    return text in ("", UNKNOWN) or NUMBER.fullmatch(text) is not None


def _padded(text: str, width: int, words: bool) -> str:
    return text.ljust(width) if words else text.rjust(width)

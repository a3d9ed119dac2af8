"""A table as text for a terminal."""

from radii.report.tables import Table
from radii.report.text import plain


def aligned(table: Table) -> str:
    """The table as lines of columns, the first aligned left and the others right."""
    texts = [[*map(plain, table.head)], *([plain(cell.text) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    head, *rows = ["  ".join(map(_padded, row, widths, range(len(widths)))).rstrip() for row in texts]
    return "\n".join([head, "  ".join("-" * width for width in widths), *rows]) + "\n"


def _padded(text: str, width: int, number: int) -> str:
    return text.ljust(width) if number < 1 else text.rjust(width)

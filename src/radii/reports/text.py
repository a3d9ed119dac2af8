"""Escapes untrusted text in a report, such as names of runs and fields of headers, for Markdown, LaTeX and CSV."""

import re

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
MARKDOWN = re.compile(r"[\\`*_\[\]<>|~&$]")
LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    # At the start of a row these would belong to the \\ before it.
    **{character: f"{{{character}}}" for character in "[]*"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}"},
    **{"σ": r"$\sigma$", "≥": r"$\geq$", "±": r"$\pm$", "×": r"$\times$", "–": "--", "’": "'"},  # noqa: RUF001
}


def plain(text: str) -> str:
    """The text in one line, with control characters escaped: they could move a cursor or break a row."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def markdown_text(text: str) -> str:
    """The text as Markdown that shows it as it is."""
    return MARKDOWN.sub(r"\\\g<0>", plain(text))


def latex_text(text: str) -> str:
    """The text as LaTeX that shows it as it is."""
    return "".join(LATEX.get(character, character) for character in plain(text))


def csv_cell(text: str) -> str:
    """The text as a cell that no spreadsheet evaluates: an apostrophe is put before what looks like a formula."""
    formula = text[:1] in ("=", "+", "-", "@", "\t", "\r") and not NUMBER.fullmatch(text)
    return plain(f"'{text}" if formula else text)

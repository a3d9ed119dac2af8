"""Untrusted text is escaped."""

import csv
import io

import pytest

from radii.reports.text import csv_cell, latex_text, markdown_text, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b", "a b"),
        ("a\nb", r"a\nb"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\udcff", r"\udcff"),
        ("ä≥", "ä≥"),
        ("\u202e", r"\u202e"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("text", ["=1+1", "+a", "-a", "@x", "=cmd|' /C calc'!A0", "-1+1", "--1", "+"])
def test_a_formula_is_quoted(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["\t=1", "\r=1"])
def test_cell_that_begins_with_whitespace_is_quoted(text: str) -> None:
    assert csv_cell(text).startswith("'")
    assert csv_cell(text).isprintable()


@pytest.mark.parametrize("text", ["", "a=1", "0.5", "-1", "-0.25", "+1e-05", "1-2"])
def test_number_or_name_is_not_quoted(text: str) -> None:
    assert csv_cell(text) == text


def test_a_quoted_cell_is_one_cell() -> None:
    text = io.StringIO()
    csv.writer(text).writerow([csv_cell('=a,"b"\n')])
    assert next(csv.reader(io.StringIO(text.getvalue()))) == ['\'=a,"b"\\n']


def test_markdown_is_escaped() -> None:
    assert markdown_text("a|b*c_d`[e](f)<g>\\\n") == r"a\|b\*c\_d\`\[e\](f)\<g\>\\\\n"
    assert markdown_text("0.50 ≥ 62.4 – 3") == "0.50 ≥ 62.4 – 3"  # noqa: RUF001


def test_latex_is_escaped() -> None:
    assert latex_text(r"50%_$x^2$\ ") == r"50\%\_\$x\textasciicircum{}2\$\textbackslash{} "
    assert latex_text("≥ 1 –") == r"$\geq$ 1 --"  # noqa: RUF001
    assert latex_text("[1]*") == "{[}1{]}{*}", "at the start of a row they would be an argument of the one before"

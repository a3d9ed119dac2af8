"""Tables as Markdown, LaTeX and CSV: escaped, and with how the numbers were made."""

import csv
import io
import re
from typing import Any

from radii.reports.accuracies import accuracies, csv_text, latex
from radii.reports.inputs import OWN, Entry
from radii.reports.metrics import Summary
from radii.reports.tables import Cell, Table, html, markdown, terminal
from radii.runs.certificates import Certificates
from tests.reports.samples import SEQUENTIAL, entry

WEAK = entry("weak_1", 0.25, 0.1, 0.0, times=100)
STRONG = entry("strong|2", 0.3, 0.6, 0.0, times=100)
HOW: dict[str, Any] = {"parameters": {"failure": 0.01}, "engine": "torch", "seed": 3, "every": 2, "images": 10}


def rows(*entries: Entry) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(entries))))


def test_csv_has_one_row_per_input() -> None:
    weak, strong = rows(WEAK, STRONG)
    assert {key: weak[key] for key in ("name", "sigma", "images", "acr", "clean", "abstained")} == {
        **{"name": "weak_1", "sigma": "0.5", "images": "300"},
        **{"acr": "0.116666", "clean": "0.666666", "abstained": "0.333334"},
    }
    assert [weak[f"r{radius}"] for radius in ("0.00", "0.25", "0.50", "0.75")] == [
        *("0.666666", "0.333333", "0.000000", "0.000000")
    ]
    assert strong["name"] == "strong|2"


def test_csv_contains_how_the_certificates_were_made() -> None:
    (row,) = rows(Entry("a", entry("a", 0.5, 0.5, 0.5, **HOW).summary, weights=OWN))
    assert {key: row[key] for key in ("certifier", "failure", "images", "images_chosen", "engine", "seed")} == {
        **{"certifier": "fixed", "failure": "0.01", "engine": "torch", "seed": "3"},
        **{"images": "3", "images_chosen": "5"},
    }
    assert (row["label_known"], row["weights"]) == ("no", OWN)


def test_unknown_values_are_empty_in_csv() -> None:
    (unknown,) = rows(Entry("a", Summary(Certificates("a", WEAK.certificates.rows))))
    assert {unknown[key] for key in ("sigma", "certifier", "failure", "engine", "seed", "images_chosen")} == {""}
    (row,) = rows(entry("a", 0.25, 0.5, 0.5, 0.0, **SEQUENTIAL))
    assert [row[key] for key in ("acr", "acr_at_least", "clean", "abstained")] == ["", "0.312500", "", ""]
    assert [row[key] for key in ("r0.00", "r0.25", "r0.50")] == ["", "0.750000", "0.500000"]
    assert "r0.75" not in row, "nothing is known beyond the largest tested radius"
    assert row["label_known"] == "yes"


def test_formulas_are_quoted_in_csv() -> None:
    (row,) = rows(entry("=1+1", 0.5, engine="@x", seed=-1))
    assert (row["name"], row["engine"], row["seed"]) == ("'=1+1", "'@x", "-1")


def test_markdown_is_a_table_with_the_best_in_bold() -> None:
    lines = markdown(accuracies([WEAK, STRONG])).splitlines()
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[2].startswith(r"| weak\_1 | 0.50 | 0.1166 |")
    assert lines[3] == r"| strong\|2 | 0.50 | **0.3000** | **66.6** | **66.6** | **33.3** | 0.0 | 33.4 |"


def test_markdown_has_one_line_per_row() -> None:
    text = markdown(accuracies([entry("a\n| b |\n\n# c <script>[x](y)", 0.5)]))
    assert len(text.splitlines()) == 3
    assert "<script>" not in text
    assert re.findall(r"(?<!\\)\[", text) == []


def test_latex_is_escaped() -> None:
    text = latex([WEAK, entry("50%_$x^2$\\", 0.3), entry("[1cm]*\n", 0.3)])
    assert r" & $\sigma$ & ACR & 0.00 &" in text
    assert "weak\\_1 & 0.50 & 0.1166 &" in text
    assert r"50\%\_\$x\textasciicircum{}2\$\textbackslash{} &" in text
    assert "\n{[}1cm{]}{*}" in text
    assert text.count("\\\\\n") == 5


def remarks(*entries: Entry) -> tuple[list[str], str]:
    """The comments of a table in LaTeX, and its last row."""
    lines = latex(entries).splitlines()
    return [line for line in lines if line.startswith("%")], lines[-2]


def test_latex_contains_how_the_certificates_were_made() -> None:
    how: dict[str, Any] = {**HOW, "seed": 4}
    comments, last = remarks(entry("a", 0.5, **HOW), entry("b", 0.5, **how))
    assert comments[0] == "% a: certifier fixed, failure 0.01, engine torch, seed 3, images 1 of 5"
    assert len(comments) == 2
    assert "certifier fixed, failure 0.01, engine torch, images 1 of 5; seed: not the same in all rows" in last
    _, last = remarks(entry("a", 0.5, **SEQUENTIAL))
    assert "certifier sequential, failure 0.001, images 1, label known" in last


def test_latex_shows_dashes_and_bounds() -> None:
    text = latex([entry("a", 0.25, 0.5, 0.5, 0.0, **SEQUENTIAL)])
    assert r"a & 0.50 & $\geq$ 0.3125 & $\geq$ 75.0 & 75.0 & 50.0 & -- \\" in text


def test_numbers_are_aligned_right_and_words_left() -> None:
    rows = [["a", "reported", "0.5", "≥ 0.4 ± 0.1"], ["bb", "here", "–", ""]]  # noqa: RUF001
    table = Table(["", "", "ACR", "1.00"], [[Cell(text) for text in row] for row in rows])
    head, _, first, second, _ = terminal(table).split("\n")
    assert head == "              ACR         1.00"
    assert first == "a   reported  0.5  ≥ 0.4 ± 0.1"
    assert second == "bb  here        –"  # noqa: RUF001
    assert html(table, words=True).count(' class="words">') == 4, "in two columns of two rows"

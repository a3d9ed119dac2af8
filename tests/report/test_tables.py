"""Tables as Markdown, LaTeX and CSV: rounded down, the best marked, nothing unescaped."""

import csv
import io

from radii.experiment.certificates import Certificates, Row
from radii.report.entries import Entry
from radii.report.summary import Summary
from radii.report.tables import accuracies, csv_text, facts_table, intervals, latex, markdown


def entry(name: str, *radii: float) -> Entry:
    rows = [Row(index, 1, 1 if radius else -1, radius, 1.0) for index, radius in enumerate(radii)]
    return Entry(name, Summary(Certificates(name, rows, {"sigma": 0.5, "procedure": "fixed"})))


WEAK = entry("weak_1", 0.25, 0.1, 0.0)
STRONG = entry("strong|2", 0.3, 0.6, 0.0)


def test_accuracies_are_rounded_down_and_the_best_is_marked() -> None:
    table = accuracies([WEAK, STRONG])
    assert table.head == ["", "σ", "ACR", "0.00", "0.25", "0.50", "0.75", "abstains"]  # noqa: RUF001
    weak, strong = table.rows
    assert [cell.text for cell in weak] == ["weak_1", "0.50", "0.1166", "66.6", "33.3", "0.0", "0.0", "33.4"]
    assert [cell.text for cell in strong] == ["strong|2", "0.50", "0.3000", "66.6", "66.6", "33.3", "0.0", "33.4"]
    assert [cell.best for cell in weak] == [False, False, False, True, False, False, False, False]
    assert [cell.best for cell in strong] == [False, False, True, True, True, True, False, False]
    assert weak[3].interval == "9.4–99.2"  # noqa: RUF001


def test_one_input_has_no_best() -> None:
    assert not any(cell.best for cell in accuracies([WEAK]).rows[0])


def test_intervals_are_a_table_of_the_radii_alone() -> None:
    table = intervals(accuracies([WEAK, STRONG]))
    assert table.head == ["", "0.00", "0.25", "0.50", "0.75"]
    assert table.rows[0][1].text == "9.4–99.2"  # noqa: RUF001


def test_csv_has_one_row_per_input() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text([WEAK, STRONG]))))
    assert list(rows[0]) == ["name", "sigma", "images", "acr", "clean", "abstained", "r0.00", "r0.25", "r0.50", "r0.75"]
    assert list(rows[0].values()) == [
        *("weak_1", "0.5", "3", "0.116666", "0.666666", "0.333334"),
        *("0.666666", "0.333333", "0.000000", "0.000000"),
    ]
    assert rows[1]["name"] == "strong|2"


def test_csv_leaves_an_unknown_sigma_empty() -> None:
    unknown = Entry("a", Summary(Certificates("a", WEAK.certificates.rows)))
    assert next(csv.DictReader(io.StringIO(csv_text([unknown]))))["sigma"] == ""


def test_markdown_is_a_table_with_the_best_in_bold() -> None:
    lines = markdown(accuracies([WEAK, STRONG])).splitlines()
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[3] == r"| strong\|2 | 0.50 | **0.3000** | **66.6** | **66.6** | **33.3** | 0.0 | 33.4 |"


def test_latex_is_escaped() -> None:
    text = latex(accuracies([WEAK, entry("50%_$x^2$\\", 0.3)]))
    assert r" & $\sigma$ & ACR & 0.00 &" in text
    assert "weak\\_1 & 0.50 & 0.1166 &" in text
    assert r"50\%\_\$x\textasciicircum{}2\$\textbackslash{} &" in text
    assert text.count(r"\\") == 3


def test_facts_stand_side_by_side_until_they_are_many() -> None:
    few = facts_table([WEAK, STRONG])
    assert few.head == ["", "weak_1", "strong|2"]
    assert [row[0].text for row in few.rows] == ["Images", "Certifier", "Time per image", "Certification time"]
    many = facts_table([entry(str(number), 0.5, 0.5) for number in range(5)])
    assert many.head == ["", "Images", "Certifier", "Time per image", "Certification time"]
    assert [cell.text for cell in many.rows[3]] == ["3", "images 0 to 1 (2)", "fixed", "1 s", "2 s"]

"""The curves of the page and their values, colours, and the table by class."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radii.reports.accuracies import MOST_CLASSES, by_class, by_class_caption
from radii.reports.figures import dark_colour, light_colour
from radii.reports.inputs import Entry, ReportedRun
from radii.reports.metrics import Summary
from radii.reports.page.charts import Chart, step_for, ticks_up_to, vote_rows
from radii.reports.page.curves import data, figure
from radii.reports.report import report
from radii.reports.text import UNKNOWN
from radii.runs.certificates import Certificates, Row
from tests.reports.samples import write_log


def entry(name: str, rows: list[Row], **header: Any) -> Entry:
    stated = {"procedure": "fixed", "parameters": {"failure": 0.001}, **header}
    return Entry(name, Summary(Certificates("a", rows, stated)))


def rows(count: int, classes: int = 2) -> list[Row]:
    return [Row(i, i % classes, i % classes, 0.01 * i, 1.0, 100 + i, {i % classes: 90, 9: 10}) for i in range(count)]


def test_slider_texts_match_the_summary() -> None:
    first = entry("a", rows(100))
    texts = json.loads(data([first, entry("b", rows(100))], 0.5))
    assert texts["start"] == 0.5
    place = texts["radii"].index(0.5)
    assert texts["texts"][place] == "0.50"
    assert texts["runs"][0]["value"][place] == "50.0"
    assert texts["runs"][0]["interval"][place] == "39.7–60.2"  # noqa: RUF001
    assert texts["runs"][1]["difference"][place] == "0.0 (-2.0 to +2.0)"
    assert "dimensions" not in texts, "the number of pixels is not known"


def test_the_interval_of_a_difference_is_rounded_outwards() -> None:
    strong, weak = rows(500), [replace(row, radius=0.0) if row.index in (498, 499) else row for row in rows(500)]
    texts = json.loads(data([entry("a", strong), entry("b", weak)], 0.5))
    differences = texts["runs"][1]["difference"]
    assert differences[texts["radii"].index(4.9)] == "-0.4 (-1.1 to +0.3)"
    assert differences[0] == "0.0 (-0.4 to +0.4)"


def test_untested_radii_are_dashes_and_bounds() -> None:
    tested = {"procedure": "sequential", "parameters": {"radii": [0.5], "failure": 0.001}}
    texts = json.loads(data([entry("a", [Row(0, 1, 1, 0.5, 1.0)], **tested)], 0.5))
    values = dict(zip(texts["radii"], texts["runs"][0]["value"], strict=True))
    assert (values[0.25], values[0.5]) == ("≥ 100.0", "100.0")
    texts = json.loads(data([entry("a", [Row(0, 1, -1, 0.0, 1.0)], **tested)], 0.5))
    assert dict(zip(texts["radii"], texts["runs"][0]["value"], strict=True))[0.25] == UNKNOWN


def test_names_are_escaped_in_the_script(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.tsv", (0, 3, 3, 1.0))
    name = "</script><script>alert(1)//"
    text = report([path], tmp_path / "out", labels={str(path): name}).read_text()
    assert text.count("<script") == 2
    assert "//" not in text.partition('id="data">')[2].partition("</script>")[0]
    script = re.search(r'id="data">(.*?)</script>', text)
    assert script is not None
    assert json.loads(script[1])["runs"][0]["name"] == name


def test_labels_must_be_of_inputs_and_differ(tmp_path: Path) -> None:
    paths = [write_log(tmp_path / name, (0, 3, 3, 1.0)) for name in ("a", "b")]
    with pytest.raises(ValueError, match="Two inputs would have the name 'b'"):
        report(paths, tmp_path / "out", labels={str(paths[0]): "b"})
    with pytest.raises(ValueError, match="has a label but is not reported"):
        report(paths[:1], tmp_path / "out", labels={str(paths[1]): "c"})


def test_classes_of_different_datasets_are_no_table(tmp_path: Path) -> None:
    runs = [NamedRun(tmp_path / str(number), names) for number, names in enumerate((("cat", "dog"), ("red", "green")))]
    entries = [replace(entry("a", rows(10)), run=run) for run in runs]
    assert by_class(entries[:1], 0.05) is not None
    assert by_class(entries, 0.05) is None
    assert by_class([entries[0], entry("a log", rows(10))], 0.05) is not None, "a log has no names"


class NamedRun(ReportedRun):
    """A run whose classes have names."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        super().__init__(path)
        self.named = names

    def class_names(self) -> tuple[str, ...]:
        return self.named


def test_colours_do_not_repeat() -> None:
    for colour in (light_colour, dark_colour):
        assert len({colour(number) for number in range(60)}) == 60


def test_a_step_is_drawn_at_the_value_of_its_right_end() -> None:
    frame = Chart("", (1.0, 100.0))
    low, high = frame.y(20.0), frame.y(80.0)
    assert frame.steps([(0.0, 80.0), (0.5, 80.0), (1.0, 20.0)]) == (
        f"M{frame.x(0):.1f} {high:.1f}H{frame.x(0.5):.1f}V{low:.1f}H{frame.x(1.0):.1f}"
    )
    assert 'class="curve"' in figure([entry("a", rows(10))])


def test_ticks_are_round() -> None:
    assert ticks_up_to(1.03, 8) == [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    assert step_for(3.8, 12) == 0.5


def test_classes_have_shares_of_their_own() -> None:
    table = by_class([entry("a", rows(100))], 0.5)
    assert table is not None
    assert [[cell.text for cell in row] for row in table.rows] == [["class 0", "50", "50.0"], ["class 1", "50", "50.0"]]
    many = entry("a", rows(200, classes=100))
    table = by_class([many], 0.5)
    assert table is not None
    assert len(table.rows) == MOST_CLASSES
    assert "of the 50 lowest of 100 classes" in by_class_caption([many], 0.5)


def test_votes_and_samples() -> None:
    votes, none = vote_rows([entry("a", rows(100)), entry("b", [Row(0, 1, 1, 0.5, 1.0)])])
    assert (votes.median_share, votes.all_samples) == ("0.900", "14,950")
    assert votes.shares.svg.startswith("<svg")
    assert [none.shares.words, none.median_share, none.samples.words, *none[4:]] == [UNKNOWN] * 5
    assert vote_rows([entry("b", [Row(0, 1, 1, 0.5, 1.0)])]) == []

"""Every format of a table has the reported number, ours, the difference and how it was made."""

import csv
import io
from pathlib import Path

import pytest

from radii.papers import tables
from radii.papers.match import Result, match_runs, scan_runs
from radii.papers.render import csv_text, figures, html, latex, markdown, reported_points, write
from radii.reports.figures import to_bytes
from tests.papers.samples import LABEL, SIX

CATRS_3, CATRS_7 = tables.load("catrs-3"), tables.load("catrs-7")


@pytest.fixture
def results() -> dict[str, list[Result]]:
    return match_runs(CATRS_3, scan_runs([SIX / "gaussian"]))


def test_formats_agree(results: dict[str, list[Result]], tmp_path: Path) -> None:
    page = write(CATRS_3, results, tmp_path / "out")
    assert page.name == "catrs-3.html"
    for text in (markdown(CATRS_3, results, []), latex(CATRS_3, results), html(CATRS_3, results, {}), page.read_text()):
        assert "1.3451" in text
        assert "small" in text
        assert "six-epochs/gaussian" in text.replace("\\", "")
    (line,) = [
        line
        for line in csv.DictReader(io.StringIO(csv_text(CATRS_3, results)))
        if (line["row"], line["column"]) == (LABEL, "acr")
    ]
    assert (line["reported"], line["budget"], line["seeds"]) == ("1.557", "small", "0")
    assert float(line["difference_lower"]) < float(line["difference"]) < float(line["difference_upper"])
    assert float(line["here"]) - 1.557 == pytest.approx(float(line["difference"]))


def test_csv_line_has_one_unit(results: dict[str, list[Result]]) -> None:
    lines = {(line["row"], line["column"]): line for line in csv.DictReader(io.StringIO(csv_text(CATRS_3, results)))}
    line = lines[LABEL, "r0.00"]
    assert (line["unit"], line["reported"], line["here"], line["difference"]) == ("percent", "99.2", "98.6", "-0.6")
    assert 95 < float(line["lower"]) < 98.6 < float(line["upper"]) <= 100
    assert lines[LABEL, "acr"]["unit"] == ""
    assert lines[LABEL, "acr"]["here"].startswith("1.345")


def test_every_table_renders_in_every_format() -> None:
    runs = scan_runs([SIX])
    for name in tables.names():
        table = tables.load(name)
        results = match_runs(table, runs)
        assert markdown(table, results, [])
        assert latex(table, results)
        assert csv_text(table, results).count("\n") > len(table.rows) / 2


def test_reported_trade_off_of_cat_rs_is_drawn() -> None:
    """Figures 4 and 5: ACR and certified accuracy at 1.0 and 2.0 over the smoothed accuracy, a line for each method."""
    drawn = figures(CATRS_7, {})
    assert list(drawn) == ["trade-off-ACR", "trade-off-1.00", "trade-off-2.00"]
    svg = to_bytes(drawn["trade-off-2.00"], "svg").decode()
    for name in ("Gaussian", "Consistency", "SmoothMix", "CAT-RS", "Smoothed accuracy, %"):
        assert name in svg


def test_points_are_the_reported_numbers() -> None:
    points = reported_points(CATRS_7, "acr")
    assert {name: len(line) for name, line in points.items()} == {
        "Gaussian": 1,
        "Consistency": 6,
        "SmoothMix": 5,
        "CAT-RS": 7,
    }
    assert points["CAT-RS"][4] == (93.2, 1.831)


def test_table_without_a_sweep_has_no_figure() -> None:
    assert not figures(tables.load("crt-2"), {})

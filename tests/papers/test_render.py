"""A paper's table beside ours: every format has the reported number, ours, the difference and how it was made."""

import csv
import io
import json
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from radii.papers import tables
from radii.papers.comparison import comparison, overview, provenance
from radii.papers.external import results_from
from radii.papers.match import Result, group_results, match_runs, scan_runs
from radii.papers.render import (
    aligned,
    csv_text,
    figures,
    html,
    html_table,
    latex,
    markdown,
    remarks,
    reported_points,
    write,
)
from radii.papers.values import Measured, as_precise, difference, value
from radii.reports import curves
from radii.reports.tables import Cell, Table

SIX = Path(__file__).parents[2] / "results" / "mnist" / "six-epochs"
CATRS_3, CATRS_7 = tables.load("catrs-3"), tables.load("catrs-7")
LABEL = "Gaussian, sigma 0.50"


@pytest.fixture
def results() -> dict[str, list[Result]]:
    return match_runs(CATRS_3, scan_runs([SIX / "gaussian"]))


def texts(found: dict[str, list[Result]]) -> list[list[str]]:
    return [[cell.text for cell in row] for row in comparison(CATRS_3, found).rows]


def test_reported_here_and_difference_are_lines_of_a_row(results: dict[str, list[Result]]) -> None:
    rows = texts(results)
    start = next(number for number, row in enumerate(rows) if row[0] == LABEL)
    reported, here, gap, low, high = rows[start : start + 5]
    assert reported[1:5] == ["reported", "1.557", "99.2", "98.3"]
    assert here[1:5] == ["here [1]", "1.3451", "98.60", "96.20"]
    assert gap[1:4] == ["difference", "-0.2119", "-0.60"]
    assert float(low[2]) < float(gap[2]) < float(high[2])


def test_budget_stands_with_every_result(results: dict[str, list[Result]]) -> None:
    (row,) = [[cell.text for cell in row] for row in provenance(CATRS_3, results).rows]
    assert row[1] == LABEL
    assert row[3:5] == ["small", "6 of the recipe’s 90"]  # noqa: RUF001
    assert "every 20th of 10,000 test images (500)" in row
    assert "estimation 10,000" in row[7]
    assert "torch" in row
    assert "training 0" in row[9]


def test_row_that_is_not_made_says_so() -> None:
    rows = texts({})
    assert [row[1] for row in rows] == ["reported", "not made yet"] * len(CATRS_3.rows)


def test_formats_agree(results: dict[str, list[Result]], tmp_path: Path) -> None:
    page = write(CATRS_3, results, tmp_path / "out")
    assert page.name == "catrs-3.html"
    for text in (markdown(CATRS_3, results, []), latex(CATRS_3, results), html(CATRS_3, results, {}), page.read_text()):
        assert "1.3451" in text
        assert "small" in text
        assert "six-epochs/gaussian" in text.replace("\\", "")
    (line,) = [
        each
        for each in csv.DictReader(io.StringIO(csv_text(CATRS_3, results)))
        if (each["row"], each["column"]) == (LABEL, "acr")
    ]
    assert (line["reported"], line["budget"], line["seeds"]) == ("1.557", "small", "0")
    assert float(line["difference_lower"]) < float(line["difference"]) < float(line["difference_upper"])
    assert float(line["here"]) - 1.557 == pytest.approx(float(line["difference"]))


@pytest.mark.parametrize("label", [row.label for row in tables.load("crt-16").rows])
def test_recipes_decay_where_the_paper_does(label: str) -> None:
    found = tables.load("crt-16")
    column = 2 + found.columns().index("lr_decay_epochs")
    rows = [[cell.text for cell in row] for row in comparison(found, {}).rows]
    start = next(number for number, row in enumerate(rows) if row[0] == label)
    assert rows[start][column] == rows[start + 1][column]


def test_csv_has_one_unit_in_a_line(results: dict[str, list[Result]]) -> None:
    found = {(each["row"], each["column"]): each for each in csv.DictReader(io.StringIO(csv_text(CATRS_3, results)))}
    line = found[LABEL, "r0.00"]
    assert (line["unit"], line["reported"], line["here"], line["difference"]) == ("percent", "99.2", "98.6", "-0.6")
    assert 95 < float(line["lower"]) < 98.6 < float(line["upper"]) <= 100
    assert found[LABEL, "acr"]["unit"] == ""
    assert found[LABEL, "acr"]["here"].startswith("1.345")


def test_row_of_a_mean_over_seeds_is_done_with_all_of_them(tmp_path: Path) -> None:
    spread = tables.load("catrs-12")
    label = next(
        row.label
        for row in spread.rows
        if "Gaussian" in row.label and "mnist" in row.label.casefold() and row.sigma == 0.5
    )

    def done() -> str:
        found = overview([(spread, match_runs(spread, scan_runs([tmp_path])), {})])
        return found.rows[0][4].text

    for seed in range(5):
        assert done() == "0", label
        run = tmp_path / f"seed{seed}"
        shutil.copytree(SIX / "gaussian", run)
        (run / "recipe.toml").write_text((run / "recipe.toml").read_text().replace("seed = 0", f"seed = {seed}"))
    assert done() == "1 (small 1)"


def test_incomplete_corruptions_say_what_is_missing(logs: Path, tmp_path: Path) -> None:
    found = tables.load("catrs-13")
    files = tmp_path / "cifar10c-sigma0.25"
    shutil.copytree(logs / "cifar10c-sigma0.25-cat-rs", files)
    (files / "snow.tsv").unlink()
    fog = files / "fog.tsv"
    fog.chmod(0o644)
    lines = fog.read_text().splitlines(keepends=True)
    fog.write_text("".join([*lines[:101], *lines[201:]]))
    row = found.row("CAT-RS")
    results = {row.label: results_from(found, row, files)}
    (how,) = [[cell.text for cell in row] for row in provenance(found, results).rows]
    assert "no complete file of snow; no images of fog at severity 2; " in how[-1]
    assert how[6] == "every 100th image, 0 to 49,900 (500); 400 images"
    assert "95 % from" not in markdown(found, results, [])
    assert "CAT-RS: " not in "".join(text for text in remarks(found, results) if text.startswith("Missing"))


def test_published_log_equals_the_reported_row(logs: Path) -> None:
    """The log of the reported model: every accuracy within the rounding of the print."""
    found = tables.load("consistency-7")
    row = found.row("Gaussian + Consistency, lambda=10, sigma 0.50")
    results = results_from(found, row, logs / "cifar10-sigma0.50-consistency.tsv")
    for column, printed in row.reported.items():
        measured = value(found, column, results)
        assert measured is not None
        gap = difference(measured, printed, 2 if column.startswith("r") else 0)
        assert gap is not None
        assert abs(gap.value) <= 0.00051
        assert gap.interval is not None
        assert gap.interval[0] < 0 < gap.interval[1]


def wrong(line: str) -> str:
    """A line of a certificate file, with a wrong prediction."""
    index, label, _, radius, _, *rest = line.split("\t")
    return "\t".join([index, label, str((int(label) + 1) % 10), radius, "0", *rest])


def test_seeds_are_one_result_with_a_deviation(tmp_path: Path) -> None:
    for seed in range(3):
        run = tmp_path / f"seed{seed}"
        shutil.copytree(SIX / "gaussian", run)
        text = (run / "recipe.toml").read_text()
        (run / "recipe.toml").write_text(text.replace("seed = 0", f"seed = {seed}"))
        (file,) = (run / "certificates").glob("*.tsv")
        head, *rows = file.read_text().splitlines(keepends=True)
        file.write_text("".join([head, *map(wrong, rows[: 7 * seed]), *rows[7 * seed :]]))
    results = match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL]
    (group,) = group_results(CATRS_3, results)
    found = value(CATRS_3, "acr", group)
    singles = [value(CATRS_3, "acr", [each]) for each in group]
    assert found is not None
    assert found.deviation is not None
    assert found.interval is not None
    assert found.value == pytest.approx(sum(each.value for each in singles if each) / 3)
    assert found.deviation > 0
    wide = [each.interval for each in singles if each and each.interval]
    assert found.interval[1] - found.interval[0] > min(high - low for low, high in wide)
    spread = value(tables.load("catrs-12"), "acr_std", group)
    assert spread is not None
    assert spread.value == pytest.approx(found.deviation)


def test_interval_over_seeds_has_only_possible_values(tmp_path: Path) -> None:
    """Student's t of two seeds reaches far below 0 and above 1."""
    for seed in range(2):
        run = tmp_path / f"seed{seed}"
        shutil.copytree(SIX / "gaussian", run)
        text = (run / "recipe.toml").read_text()
        (run / "recipe.toml").write_text(text.replace("seed = 0", f"seed = {seed}"))
        (file,) = (run / "certificates").glob("*.tsv")
        head, *rows = file.read_text().splitlines(keepends=True)
        file.write_text("".join([head, *map(wrong, rows[: 250 * seed]), *rows[250 * seed :]]))
    (group,) = group_results(CATRS_3, match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL])
    accuracy, acr = (value(CATRS_3, column, group) for column in ("r0.00", "acr"))
    assert accuracy is not None
    assert accuracy.interval == (0.0, 1.0)
    assert acr is not None
    assert acr.interval is not None
    assert acr.interval[0] == 0


def test_numbers_are_aligned_right_and_words_left() -> None:
    rows = [["a", "reported", "0.5", "≥ 0.4 ± 0.1"], ["bb", "here", "–", ""]]  # noqa: RUF001
    table_of = Table(["", "", "ACR", "1.00"], [[Cell(text) for text in row] for row in rows])
    head, _, first, second, _ = aligned(table_of).split("\n")
    assert head == "              ACR         1.00"
    assert first == "a   reported  0.5  ≥ 0.4 ± 0.1"
    assert second == "bb  here        –"  # noqa: RUF001
    assert html_table(table_of).count('<td class="words">') == 4


def test_unfinished_certificates_are_not_averaged_with_finished_ones(tmp_path: Path) -> None:
    for seed in range(2):
        run = tmp_path / f"seed{seed}"
        shutil.copytree(SIX / "gaussian", run)
        text = (run / "recipe.toml").read_text()
        (run / "recipe.toml").write_text(text.replace("seed = 0", f"seed = {seed}"))
    (file,) = (tmp_path / "seed1" / "certificates").glob("*.tsv")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:100]))
    assert len(group_results(CATRS_3, match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL])) == 2


def test_same_training_in_two_folders_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(SIX / "gaussian", tmp_path / name)
    (group,) = group_results(CATRS_3, match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL])
    assert len(group) == 1


def test_difference_has_the_rounding_of_the_print() -> None:
    gap = difference(Measured(0.5, interval=(0.4, 0.6)), Decimal("0.50"))
    assert gap is not None
    assert gap.interval == pytest.approx((-0.105, 0.105))
    percent = difference(Measured(0.5, interval=(0.4, 0.6)), Decimal("50.0"), 2)
    assert percent is not None
    assert percent.interval == pytest.approx((-0.1005, 0.1005))


def test_difference_has_no_rounding_of_its_own() -> None:
    """0.986 - 0.992 is -0.006, of which a double is a little less."""
    gap = difference(Measured(0.986), Decimal("99.2"), 2)
    assert gap is not None
    assert gap.value == -0.006


def test_whole_number_is_rounded_as_the_others_of_its_row() -> None:
    """MACER prints 0 beside 0.99: not a number between -0.5 and 0.5."""
    macer_6 = tables.load("macer-6")
    row = macer_6.row("Gaussian, sigma 0.25")
    assert str(row.reported["r1.00"]) == "0"
    assert str(as_precise(row, "r1.00")) == "0.00"
    assert as_precise(row, "acr") == row.reported["acr"]
    whole = replace(row, reported={"r0.00": 67, "r0.25": 0})
    assert as_precise(whole, "r0.25") == 0


def test_training_that_differs_from_the_recipes_is_told(tmp_path: Path) -> None:
    shutil.copytree(SIX / "gaussian", tmp_path / "run")
    file = tmp_path / "run" / "recipe.toml"
    file.write_text(file.read_text().replace("weight_decay = 0.0001", "weight_decay = 0.1"))
    (header,) = (tmp_path / "run" / "certificates").glob("*.json")
    header.write_text(json.dumps({**json.loads(header.read_text()), "noise": {"name": "grid", "sigma": 0.5}}))
    (row,) = [
        [cell.text for cell in row] for row in provenance(CATRS_3, match_runs(CATRS_3, scan_runs([tmp_path]))).rows
    ]
    assert row[5] == "one_cycle, rate 0.05, 256 images a step, weight_decay 0.1 for 0.0001"
    assert row[7].endswith("noise grid")


def test_row_is_done_with_its_last_image(results: dict[str, list[Result]]) -> None:
    (result,) = results[LABEL]
    assert result.certificates is not None
    half = replace(result.certificates, rows=result.certificates.rows[:100])
    begun = {**results, LABEL: [replace(result, certificates=half)]}
    (whole,), (part,) = (overview([(CATRS_3, some, {})]).rows for some in (results, begun))
    assert (whole[4].text, whole[5].text) == ("1 (small 1)", "20")
    assert (part[4].text, part[5].text) == ("0", "21")


def test_teacher_of_several_rows_is_paid_once() -> None:
    crt_2 = tables.load("crt-2")
    costs = {row.label: {"teacher": 7200.0, row.label: 60.0} for row in crt_2.rows}
    ((row,),) = (overview([(crt_2, {}, costs)]).rows,)
    assert row[7].text == "about 2 h 7 min"


def test_bound_has_no_difference() -> None:
    assert difference(Measured(0.5, exact=False), Decimal("0.50")) is None
    assert difference(Measured(0.5), "PGD") is None


def test_settings_show_the_recipes_beside_the_papers() -> None:
    found = tables.load("macer-4")
    rows = [[cell.text for cell in row] for row in comparison(found, {}).rows]
    start = next(number for number, row in enumerate(rows) if row[0] == "MACER, sigma 0.25")
    assert rows[start + 1][1] == "recipe"
    columns = found.columns()
    pairs = {column: (rows[start][2 + n], rows[start + 1][2 + n]) for n, column in enumerate(columns)}
    assert pairs["k"] == ("16", "16")
    assert pairs["lambda"] == ("12.0", "12")


def test_every_table_renders_in_every_format() -> None:
    runs = scan_runs([SIX])
    for name in tables.names():
        found = tables.load(name)
        results = match_runs(found, runs)
        assert markdown(found, results, [])
        assert latex(found, results)
        assert csv_text(found, results).count("\n") > len(found.rows) / 2


def test_reported_trade_off_of_cat_rs_is_drawn() -> None:
    """Figures 4 and 5: ACR and certified accuracy at 1.0 and 2.0 over the clean accuracy, a line for each method."""
    drawn = figures(CATRS_7, {})
    assert list(drawn) == ["trade-off-ACR", "trade-off-1.00", "trade-off-2.00"]
    svg = curves.image(drawn["trade-off-2.00"], "svg").decode()
    for name in ("Gaussian", "Consistency", "SmoothMix", "CAT-RS", "Clean accuracy, %"):
        assert name in svg


def test_points_are_the_reported_numbers() -> None:
    points = reported_points(CATRS_7, "acr")
    assert {name: len(some) for name, some in points.items()} == {
        "Gaussian": 1,
        "Consistency": 6,
        "SmoothMix": 5,
        "CAT-RS": 7,
    }
    assert points["CAT-RS"][4] == (93.2, 1.831)


def test_table_without_a_sweep_has_no_figure() -> None:
    assert not figures(tables.load("crt-2"), {})

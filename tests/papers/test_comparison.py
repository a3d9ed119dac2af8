"""The lines of a table: reported, here and difference, how each was made, and the overview."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from radii.papers import tables
from radii.papers.comparison import comparison, overview, provenance
from radii.papers.external import results_from
from radii.papers.match import Result, match_runs, scan_runs
from radii.papers.render import markdown, remarks
from tests.papers.samples import LABEL, SIX, copy_gaussian

CATRS_3 = tables.load("catrs-3")


@pytest.fixture
def results() -> dict[str, list[Result]]:
    return match_runs(CATRS_3, scan_runs([SIX / "gaussian"]))


def texts(results: dict[str, list[Result]]) -> list[list[str]]:
    return [[cell.text for cell in row] for row in comparison(CATRS_3, results).rows]


def test_reported_here_and_difference_are_lines_of_a_row(results: dict[str, list[Result]]) -> None:
    rows = texts(results)
    start = next(number for number, row in enumerate(rows) if row[0] == LABEL)
    reported, here, gap, low, high = rows[start : start + 5]
    assert reported[1:5] == ["reported", "1.557", "99.2", "98.3"]
    assert here[1:5] == ["here [1]", "1.3451", "98.60", "96.20"]
    assert gap[1:4] == ["difference", "-0.2119", "-0.60"]
    assert float(low[2]) < float(gap[2]) < float(high[2])


def test_provenance_states_the_budget(results: dict[str, list[Result]]) -> None:
    (row,) = [[cell.text for cell in row] for row in provenance(CATRS_3, results).rows]
    assert row[1] == LABEL
    assert row[3:5] == ["small", "6 of the recipe’s 90"]  # noqa: RUF001
    assert "every 20th of 10,000 test images (500)" in row
    assert "estimation 10,000" in row[7]
    assert "torch" in row
    assert "training 0" in row[9]


def test_row_without_results_is_not_made_yet() -> None:
    rows = texts({})
    assert [row[1] for row in rows] == ["reported", "not made yet"] * len(CATRS_3.rows)


@pytest.mark.parametrize("label", [row.label for row in tables.load("crt-16").rows])
def test_recipes_decay_where_the_paper_does(label: str) -> None:
    table = tables.load("crt-16")
    column = 2 + table.columns().index("lr_decay_epochs")
    rows = [[cell.text for cell in row] for row in comparison(table, {}).rows]
    start = next(number for number, row in enumerate(rows) if row[0] == label)
    assert rows[start][column] == rows[start + 1][column]


def test_row_of_means_is_done_with_all_seeds(tmp_path: Path) -> None:
    spread = tables.load("catrs-12")
    label = next(
        row.label
        for row in spread.rows
        if "Gaussian" in row.label and "mnist" in row.label.casefold() and row.sigma == 0.5
    )

    def done() -> str:
        lines = overview([(spread, match_runs(spread, scan_runs([tmp_path])), {})])
        return lines.rows[0][4].text

    for seed in range(5):
        assert done() == "0", label
        copy_gaussian(tmp_path, seed)
    assert done() == "1 (small 1)"


def test_provenance_names_missing_corruptions(logs: Path, tmp_path: Path) -> None:
    table = tables.load("catrs-13")
    files = tmp_path / "cifar10c-sigma0.25"
    shutil.copytree(logs / "cifar10c-sigma0.25-cat-rs", files)
    (files / "snow.tsv").unlink()
    fog = files / "fog.tsv"
    fog.chmod(0o644)
    lines = fog.read_text().splitlines(keepends=True)
    fog.write_text("".join([*lines[:101], *lines[201:]]))
    row = table.row("CAT-RS")
    results = {row.label: results_from(table, row, files)}
    (how,) = [[cell.text for cell in row] for row in provenance(table, results).rows]
    assert "no complete file of snow; no images of fog at severity 2; " in how[-1]
    assert how[6] == "every 100th image, 0 to 49,900 (500); 400 images"
    assert "95 % from" not in markdown(table, results, [])
    assert "CAT-RS: " not in "".join(text for text in remarks(table, results) if text.startswith("Missing"))


def test_provenance_states_other_training_fields(tmp_path: Path) -> None:
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
    (whole,), (part,) = (overview([(CATRS_3, matched, {})]).rows for matched in (results, begun))
    assert (whole[4].text, whole[5].text) == ("1 (small 1)", "20")
    assert (part[4].text, part[5].text) == ("0", "21")


def test_shared_teacher_is_counted_once() -> None:
    crt_2 = tables.load("crt-2")
    costs = {row.label: {"teacher": 7200.0, row.label: 60.0} for row in crt_2.rows}
    ((row,),) = (overview([(crt_2, {}, costs)]).rows,)
    assert row[7].text == "about 2 h 7 min"


def test_settings_show_the_recipes_beside_the_papers() -> None:
    table = tables.load("macer-4")
    rows = [[cell.text for cell in row] for row in comparison(table, {}).rows]
    start = next(number for number, row in enumerate(rows) if row[0] == "MACER, sigma 0.25")
    assert rows[start + 1][1] == "recipe"
    columns = table.columns()
    pairs = {column: (rows[start][2 + n], rows[start + 1][2 + n]) for n, column in enumerate(columns)}
    assert pairs["k"] == ("16", "16")
    assert pairs["lambda"] == ("12.0", "12")

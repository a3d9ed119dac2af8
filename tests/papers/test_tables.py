"""Every table file is strict, its rows can be made or say why not, and its numbers are the papers'."""

import csv
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from radii import models, objectives
from radii.papers import tables
from radii.papers.budgets import budgets
from radii.papers.tables import PaperTable, System, TableError
from radii.runs import recipe
from radii.runs.recipe import fields_of

NAMES = tables.names()
TABLES = {name: tables.load(name) for name in NAMES}
TEXT = """
title = "Two methods"
source = "Nobody, Table 1"
kind = "certified"
dataset = "digits"
unit = "certified accuracy in percent"
sigma = [0.25]
radii = [0.00, 0.25]

[[rows]]
label = "Gaussian"
sigma = 0.25
recipe = "digits/gaussian-0.25"
reported = { acr = 0.500, "r0.00" = 90.0, "r0.25" = 70.0 }
"""


def systems(table: PaperTable) -> Iterator[System]:
    waiting = [row.system for row in table.rows if row.system] + ([table.baseline] if table.baseline else [])
    while waiting:
        yield (system := waiting.pop())
        waiting += system.sources().values()


def test_every_table_of_the_papers_is_there() -> None:
    numbers_of = {"crt": range(1, 18), "macer": range(1, 14), "consistency": range(1, 8), "catrs": range(3, 26)}
    assert set(NAMES) == {f"{paper}-{number}" for paper, numbers in numbers_of.items() for number in numbers}


def test_every_row_has_a_recipe_that_can_be_trained() -> None:
    """The recipe is there, its settings are fields of its objective and model, also at every budget."""
    pairs = {(system, table.varies) for table in TABLES.values() for system in systems(table)}
    recipes = [system.load_recipe() for system, _ in pairs]
    recipes += [budget.recipe(system, varies) for system, varies in pairs for budget in budgets().values()]
    for stated in recipes:
        objective = stated.objective["name"]
        resources: dict[str, Any] = dict.fromkeys(objectives.resources_of(objective), object())
        objectives.create(objective, sigma=stated.sigma, **fields_of(stated.objective), **resources)
    assert {stated.model["name"] for stated in recipes} <= set(models.names())


@pytest.mark.parametrize("name", NAMES)
def test_sigma_of_a_row_is_its_recipes(name: str) -> None:
    table = TABLES[name]
    for row in table.rows:
        assert row.sigma is None or row.sigma in table.sigma
        if row.sigma and row.system:
            assert row.system.load_recipe().sigma == row.sigma


@pytest.fixture(scope="session")
def printed() -> Path:
    """The folder of the papers' tables as CSV."""
    logs = os.environ.get("RADII_LOGS")
    folder = Path(logs).parent / "papers" / "tables" if logs else None
    if folder is None or not folder.is_dir():
        pytest.skip("there are no papers/tables beside the folder that RADII_LOGS names")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_reported_numbers_are_the_papers(name: str, printed: Path) -> None:
    """Every cell of a CSV that is a number is reported, digit for digit, and nothing else is."""
    lines = [line for line in (printed / f"{name}.csv").read_text().splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    if "type" in rows[0]:  # corruptions by method: the table has a row for each method
        methods = list(rows[0])[1:]
        rows = [{row["type"]: row[method] for row in rows} for method in methods]
    table = TABLES[name]
    assert len(rows) == len(table.rows)
    for line, row in zip(rows, table.rows, strict=True):
        cells = {key: str(value) for key, value in row.reported.items()}
        assert cells == {key: line[key] for key in cells}
        numbers = {key for key, value in line.items() if key in table.columns() and value}
        assert numbers == set(cells)
    assert table.columns(), "a table reports something"


def test_uncertain_numbers_are_marked() -> None:
    assert any("21.1" in text for text in TABLES["consistency-7"].uncertain)


def test_numbers_keep_their_printed_digits() -> None:
    assert str(TABLES["crt-2"].rows[0].reported["acr"]) == "0.550"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("radii =", "radi =", "has no field 'radi'; did you mean 'radii'"),
        ("label =", "lable =", "has no field 'lable'; did you mean 'label'"),
        ('recipe = "digits/gaussian-0.25"\n', "", "needs a recipe, or status = 'missing'"),
        ('recipe = "digits/gaussian-0.25"\n', 'status = "missing"\n', "belong together"),
        ('kind = "certified"', 'kind = "certifed"', "expected one of 'certified'"),
        ('recipe = "digits/gaussian-0.25"', "recipe = 3", "expected a string"),
        ('recipe = "digits/gaussian-0.25"', 'recipe = "a"\nteacher = "b"', "expected a table with a recipe"),
        ('title = "Two methods"', 'title = "Two', "Illegal character"),
    ],
)
def test_mistake_in_a_file_is_explained(tmp_path: Path, old: str, new: str, words: str) -> None:
    file = tmp_path / "mine.toml"
    assert old in TEXT
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(TableError, match=words) as raised:
        tables.read(file)
    assert str(file) in str(raised.value)


def test_two_rows_of_one_label_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TEXT + TEXT[TEXT.index("[[rows]]") :])
    with pytest.raises(TableError, match="two rows are labelled 'Gaussian'"):
        tables.read(file)


def test_unknown_table_suggests_the_nearest() -> None:
    with pytest.raises(TableError, match="did you mean 'crt-2'"):
        tables.find("crt2")
    with pytest.raises(TableError, match="cannot read the table"):
        tables.read(Path("nowhere.toml"))


def test_row_is_found_by_a_part_of_its_label_that_no_other_has() -> None:
    table = TABLES["crt-2"]
    assert table.row("crt, dla").label == "CRT, DLA, taught by ResNet110 (SmoothMix)"
    with pytest.raises(TableError, match="2 rows of crt-2 have 'DLA'"):
        table.row("DLA")
    with pytest.raises(TableError, match="did you mean"):
        table.row("SmoothMx, DLA")


def test_recipes_of_the_rows_are_shipped() -> None:
    """A row never names a recipe that only this checkout has."""
    assert {system.recipe for table in TABLES.values() for system in systems(table)} <= set(recipe.shipped())


def test_whole_numbers_stay_whole() -> None:
    assert TABLES["catrs-6"].rows[0].reported["r0.00"] == 44
    assert isinstance(TABLES["macer-6"].rows[0].reported["acr"], Decimal)


@pytest.mark.parametrize(
    ("name", "label", "copies", "radius"),
    [
        ("catrs-12", "SmoothAdv, CIFAR-10, sigma 0.50", 8, 255 / 256),
        ("catrs-12", "SmoothAdv, MNIST, sigma 0.50", 4, 255 / 256),
        ("catrs-5", "SmoothAdv, sigma 0.25", 4, 255 / 256),
        ("catrs-5", "SmoothAdv, sigma 0.50", 8, 255 / 256),
        ("catrs-13", "SmoothAdv", 4, 255 / 256),
    ],
)
def test_smoothadv_of_catrs_follows_its_appendix(name: str, label: str, copies: int, radius: float) -> None:
    """C.5: m = 4 at sigma 0.25, m = 8 at sigma 0.50, epsilon 1.0 in both."""
    system = tables.load(name).row(label).system
    assert system is not None
    objective = system.load_recipe().objective
    assert (objective["copies"], objective["radius"]) == (copies, radius)


def test_name_may_be_in_capitals() -> None:
    assert tables.find("CRT-2") == tables.find("crt-2")


def test_labels_with_commas_are_quoted() -> None:
    with pytest.raises(TableError, match=r"has no row 'nonsense'; expected one of: '[^']+, [^']+', '"):
        tables.load("crt-8").row("nonsense")

"""docs/coverage.md is up to date, and says of nothing that it was measured without a run or a test that has it."""

import shlex
import shutil
from pathlib import Path

import pytest

from benchmarks.coverage import CODE, MEASURED, MISSING, Item, archived, has, items, status, write
from radii import cli
from radii.papers import tables
from radii.runs import recipe

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
ITEMS = items(ROOT)
RUNS = list(archived(ROOT))


def test_page_is_up_to_date() -> None:
    assert write(ROOT) == (ROOT / "docs" / "coverage.md").read_text(), "run scripts/coverage"


def test_all_items_of_the_papers_are_listed() -> None:
    assert len(ITEMS) == len({item.item for item in ITEMS}) == 81


@pytest.mark.parametrize(
    "item", [item for item in ITEMS if item.command.startswith("radii ")], ids=lambda item: item.item
)
def test_command_of_an_item_can_be_typed(item: Item) -> None:
    """Its words parse, and the table, recipe and rows that it names are there."""
    if status(item, RUNS, ROOT)[0] == MISSING:
        return
    _, verb, *words = shlex.split(item.command)
    cli.app.parse_args([verb, *words], exit_on_error=False, print_error=False)
    if verb == "table":
        found = tables.load(words[0])
        if "--only" in words:
            part = words[words.index("--only") + 1].casefold()
            assert any(part in row.label.casefold() for row in found.rows)
    if verb == "train":
        settings = [words[number + 1] for number, word in enumerate(words) if word == "--set"]
        recipe.read(recipe.find(words[0]), settings)


def test_status_is_computed() -> None:
    item = Item(
        item="x", papers="", command="", code=["README.md"], measured={"objective.name": "gaussian", "sigma": 7.0}
    )
    assert status(item, RUNS, ROOT)[0] == CODE
    facts = {"objective.name": "gaussian", "sigma": 7.0, "seed": 0}
    assert status(item, [("results/a", facts)], ROOT) == (MEASURED, "results/a")
    assert status(Item(item="x", papers="", command="", code=["README.md:no such word here"]), RUNS, ROOT)[0] == MISSING


def test_every_part_of_an_item_needs_a_run() -> None:
    parts = [{"seed": 0}, {"seed": 1}]
    item = Item(item="x", papers="", command="", measured=parts, note="only so", partly="one seed")
    runs = [("results/a", {"seed": 0}), ("results/b", {"seed": 0}), ("results/c", {"seed": 1})]
    assert status(item, runs, ROOT) == (MEASURED, "results/c; only so")
    assert status(item, runs[:2], ROOT) == (CODE, "one seed")


def test_width_that_a_recipe_leaves_out_is_the_default() -> None:
    plain = [facts for name, facts in RUNS if name == "results/cifar10/twelve-epochs/gaussian"]
    assert {facts["model.width"] for facts in plain} == {16}
    narrow = [facts for name, facts in RUNS if name == "results/cifar10/twelve-epochs/smoothmix-to-regnetx_200mf"]
    assert {facts["model.width"] for facts in narrow} == {0.25}


def test_shown_needs_the_test_itself() -> None:
    item = Item(item="x", papers="", command="", shown=["tests/test_coverage.py::test_that_is_not_" + "here"])
    assert status(item, RUNS, ROOT)[0] == CODE


def test_list_of_values_means_one_of_them() -> None:
    assert has({"a": 1}, {"a": [1, 2]})
    assert not has({"a": 3}, {"a": [1, 2]})
    assert not has({}, {"a": 1})


def test_run_without_certificates_measures_nothing(tmp_path: Path) -> None:
    run = tmp_path / "results" / "mnist" / "six-epochs" / "stability"
    shutil.copytree(ROOT / "results" / "mnist" / "six-epochs" / "stability", run)
    assert len(list(archived(tmp_path))) == 1
    shutil.rmtree(run / "certificates")
    assert not list(archived(tmp_path))

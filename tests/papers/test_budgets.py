"""Budgets shorten trainings; the identity of a recipe is the same at any budget."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from radii import datasets, models, plugins
from radii.fields import settings_of
from radii.objectives import Objective
from radii.papers import tables
from radii.papers.budgets import find_budget, identity
from radii.papers.tables import System, TableError
from radii.runs import recipe
from radii.training.open_dataset import dataset_fields


def test_budget_scales_everything_that_counts_epochs() -> None:
    system = System(recipe="mnist/macer-0.50")
    small, paper = find_budget("small").recipe(system, seed=3), system.load_recipe()
    assert paper.training is not None
    assert small.training is not None
    assert (small.training.epochs, small.seed, small.training.schedule) == (6, 3, "one_cycle")
    assert small.objective["start_epoch"] == paper.objective["start_epoch"] * 6 // paper.training.epochs
    assert small.objective["weight"] == paper.objective["weight"]


def test_budget_keeps_what_the_table_varies() -> None:
    table = tables.load("macer-8")
    epochs = []
    for row in table.rows[1:3]:
        assert row.system is not None
        training = find_budget("small").recipe(row.system, table.varies).training
        assert training is not None
        epochs.append(training.epochs)
    assert epochs == [150, 440]


def test_papers_budget_changes_nothing() -> None:
    system = System(recipe="cifar10/smoothmix-0.25")
    assert find_budget("paper").recipe(system) == system.load_recipe()
    with pytest.raises(TableError, match="did you mean 'paper'"):
        find_budget("papers")


def test_identity_ignores_fields_with_their_default() -> None:
    plain = recipe.read(recipe.find("mnist/catrs-0.50"))
    stated = recipe.read(recipe.find("mnist/catrs-0.50"), ["objective.accept_by=model", "objective.mask=true"])
    other = recipe.read(recipe.find("mnist/catrs-0.50"), ["objective.mask=false"])
    assert identity(plain) == identity(stated) != identity(other)


def test_identity_has_the_fields_that_a_table_varies() -> None:
    epochs = recipe.read(recipe.find("cifar10/macer-0.25"), ["training.epochs=150"])
    whole = recipe.read(recipe.find("cifar10/macer-0.25"))
    assert identity(epochs) == identity(whole)
    assert identity(epochs, ["training.epochs"]) != identity(whole, ["training.epochs"])


def test_run_name_depends_on_the_teacher_and_the_seed() -> None:
    small, student = find_budget("small"), "mnist/transfer-0.50"
    teachers = [System(recipe=name) for name in ("mnist/macer-0.50", "mnist/smoothmix-0.50")]
    taught = [System(recipe=student, teacher=teacher) for teacher in teachers]
    names = {small.run_name(system, (), seed) for system in taught for seed in (0, 1)}
    assert len(names) == 4
    assert all(name.startswith("small/mnist-transfer-0.50-lenet-seed") for name in names)


def with_all_fields(system: System) -> recipe.Recipe:
    """Return the recipe of a system with every field of its model and objective, as a run records it."""
    stated = system.load_recipe()
    kind = plugins.find("objectives", stated.objective["name"], Objective)
    defaults = {setting.name: setting.default for setting in settings_of(kind) if setting.name != "sigma"}
    model = models.resolved(stated.model["name"], recipe.fields_of(stated.model))
    return replace(stated, model=stated.model | model, objective=defaults | stated.objective)


def test_identity_of_a_run_is_its_systems() -> None:
    systems = {row.system for name in tables.names() for row in tables.load(name).rows if row.system}
    assert [system for system in systems if identity(with_all_fields(system)) != identity(system.load_recipe())] == []


@pytest.mark.parametrize("size", [224, 64])
def test_identity_of_a_run_on_photographs_is_its_recipes(size: int, tmp_path: Path) -> None:
    """A run records the fields of its dataset that its recipe leaves out."""
    (tmp_path / "val" / "cat").mkdir(parents=True)
    Image.new("RGB", (300, 300)).save(tmp_path / "val" / "cat" / "a.png")
    photographs = recipe.read(recipe.find("imagenet/gaussian-0.25"), [] if size == 224 else [f"dataset.size={size}"])
    opened = datasets.create("folder", **recipe.fields_of(photographs.dataset), path=str(tmp_path))
    stated = replace(photographs, dataset={"name": "folder", **dataset_fields(opened)})
    other = replace(stated, dataset={**stated.dataset, "resize": 300})
    assert identity(stated) == identity(photographs) != identity(other)

"""Runs from Python: train, transfer, export."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from radii.runs import recipe as recipes
from radii.runs.recipe import Recipe, Spec
from radii.runs.run import Run


def train(
    recipe: Recipe | Path | str,
    run: Path | str,
    *,
    settings: Sequence[str] = (),
    data: Path | str | None = None,
    **resources: Any,
) -> Run:
    """Train a recipe in the folder `run`, or continue it where it stopped; a finished run is returned as it is.

    `recipe` is a Recipe, a recipe file, or the name of a shipped one; `settings` such as "training.epochs=5" lie over
    a file. `resources` are the teacher, soft_labels, trust and on_step of radii.training.train.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> run.finished
    True
    """
    from radii.training.train import train as train_run

    if isinstance(recipe, Recipe) and settings:
        raise ValueError("settings lie over a recipe file: change the fields of a Recipe itself")
    wanted = recipe if isinstance(recipe, Recipe) else recipes.read(recipes.find(recipe), settings)
    return train_run(wanted, run, data=None if data is None else Path(data), **resources)


def transfer(
    teacher: Run | Path | str,
    model: Spec | Sequence[Spec],
    *,
    recipe: Recipe | Path | str | None = None,
    run: Path | str | None = None,
    settings: Sequence[str] = (),
    data: Path | str | None = None,
    trust: Collection[str] = (),
) -> Any:
    """Transfer the robustness of a teacher's run to a student; a list of models is a chain, and gives a list of runs.

    By default the recipe is the shipped one of the teacher's dataset and sigma, and the student's folder is beside the
    teacher's. `trust` names the modules whose code the teacher's run may import.

    >>> import radii, tempfile
    >>> folder, short = tempfile.mkdtemp(), ["training.epochs=1"]
    >>> teacher = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=short)
    >>> radii.transfer(teacher, "digits_cnn", settings=short).name
    'g-to-digits_cnn'
    """
    from radii.training.transfer import transfer as transfer_run

    first = teacher if isinstance(teacher, Run) else Run(teacher, trust)
    if not isinstance(recipe, Recipe):
        recipe = (
            recipes.read(recipes.find(recipe), settings) if recipe else recipes.transfer_recipe(first.recipe, settings)
        )
    models = list(model) if isinstance(model, list | tuple) else [model]
    named, at = None if run is None else Path(run), None if data is None else Path(data)
    students = list(transfer_run(first, recipe, models, run=named, data=at))
    return students if isinstance(model, list | tuple) else students[0]


def export(run: Run | Path | str, path: Path | str, trust: Collection[str] = ()) -> Path:
    """Write a run's base classifier as one ONNX file, checked against torch, and a card of its certificates beside it.

    `trust` names the modules of others whose code the run may use.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> radii.export(run, f"{folder}/g.onnx").name
    'g.onnx'
    """
    from radii.interop.export import export_onnx
    from radii.reports.card import certified

    run = run if isinstance(run, Run) else Run(run, trust)
    return export_onnx(run, path, certified=certified(run))

"""Robustness transfer (CRT): train a teacher where there is none, then one student or a chain of students."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from radii import disk, models, objectives
from radii.errors import MissingResourceError, ParameterError
from radii.estimate import OnEstimate
from radii.runs import recipe as recipes
from radii.runs.lineage import seconds_before, teachers
from radii.runs.recipe import Recipe, Spec, fields_of, named_table
from radii.runs.run import Run
from radii.runs.trust import require_data
from radii.training.build import build
from radii.training.ddp import join_world
from radii.training.fine_tuning import student_recipe
from radii.training.loop import OnStep, train
from radii.training.open_dataset import open_dataset
from radii.training.soft_labels import soft_labels
from radii.training.timing import TIMED_STEPS, time_steps

VOTES = 10_000
"""Noisy copies of an image for its soft labels, as in the CAT-RS paper."""


def transfer(
    teacher: Run | Path | str,
    model: Spec | Sequence[Spec],
    *,
    recipe: Recipe | Path | str | None = None,
    run: Path | str | None = None,
    settings: Sequence[str] = (),
    data: Path | str | None = None,
    trust: Collection[str] = (),
    siblings: bool = False,
    minutes: float | None = None,
) -> Any:
    """Transfer the robustness of a teacher's run to a student; a list of models is a chain and returns a list of runs.

    With `siblings`, the first teacher teaches all of them. By default the recipe is the shipped one for the teacher's
    dataset and sigma, and the student's folder is beside the teacher's. `minutes` is the time for each student, instead
    of epochs. `trust` names the modules whose code the teacher's run may import.

    >>> import radii, tempfile
    >>> folder, short = tempfile.mkdtemp(), ["training.epochs=1"]
    >>> teacher = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=short)
    >>> radii.transfer(teacher, "digits_cnn", settings=short).name
    'g-to-digits_cnn'
    """
    first = teacher if isinstance(teacher, Run) else Run(teacher, trust)
    if not isinstance(recipe, Recipe):
        folder = None if data is None else Path(data)
        recipe = recipes.read(recipes.find(recipe), settings) if recipe else student_recipe(first, settings, folder)
    chain = list(model) if isinstance(model, list | tuple) else [model]
    path, folder = None if run is None else Path(run), None if data is None else Path(data)
    students = list(train_students(first, recipe, chain, run=path, data=folder, siblings=siblings, minutes=minutes))
    return students if isinstance(model, list | tuple) else students[0]


def train_students(
    teacher: Run,
    recipe: Recipe,
    architectures: Sequence[Spec],
    *,
    run: Path | None = None,
    data: Path | None = None,
    siblings: bool = False,
    minutes: float | None = None,
    on_step: OnStep = lambda _: None,
    on_estimate: OnEstimate | None = None,
) -> Iterator[Run]:
    """Train a student of each model, taught by the student before it; yield each when it is trained.

    With `siblings`, all are taught by `teacher`, whose logits are computed once (training/tape.py).
    All students use `recipe`, except for its model. It must have the teacher's dataset and sigma.
    """
    if run is not None and len(architectures) > 1:
        raise ParameterError("one directory is named for several students: leave it out", "run")
    for model in architectures:
        name = named_table(model, "model")["name"].replace(":", "-")
        path = run or teacher.path.with_name(f"{teacher.name}-to-{name}")
        taught = replace(recipe, model=model, dataset=_student_dataset(recipe, teacher, data))
        student = train(
            taught, path, data=data, teacher=teacher, minutes=minutes, on_step=on_step, on_estimate=on_estimate
        )
        if join_world().is_rank0:
            _time_teacher_method(student, teacher, data)
        yield student
        teacher = teacher if siblings else student


def _student_dataset(recipe: Recipe, teacher: Run, data: Path | None) -> Spec:
    """Return the recipe's dataset; fields that it does not state are the teacher's if the dataset is the same."""
    table = teacher.recipe.dataset
    if recipe.dataset["name"] != table["name"]:
        return recipe.dataset
    path = {"path": str(teacher.path / table["path"])} if table.get("path") else {}
    if path and data is None and "path" not in recipe.dataset:
        require_data(Path(path["path"]), table["name"], teacher.path)
    return {**table, **path, **recipe.dataset}


# A teacher where there is none


def bootstrap(
    recipe: Recipe,
    path: Path,
    *,
    voter: Recipe | None = None,
    votes: int = VOTES,
    data: Path | None = None,
    workers: int | None = None,
    trust: Collection[str] = (),
    on_step: OnStep = lambda _: None,
    on_image: Callable[[int, int], None] = lambda *_: None,
    on_estimate: OnEstimate | None = None,
) -> Run:
    """Train a teacher; if its objective needs soft labels, first train the run that votes on them.

    That run is in the folder PATH-voter and has the recipe `voter`, by default `default_voter(recipe)`. The same call
    continues where it stopped.
    """
    if votes < 1:
        raise ValueError(f"votes = {votes}, expected a whole number >= 1")
    if not needs_soft_labels(recipe):
        return train(recipe, path, data=data, trust=trust, on_step=on_step, on_estimate=on_estimate)
    folder = path.with_name(f"{path.name}-voter")
    voting = train(voter or default_voter(recipe), folder, data=data, on_step=on_step, on_estimate=on_estimate)
    labels = soft_labels(voting, samples=votes, data=data, workers=workers, on_image=on_image, on_estimate=on_estimate)
    return train(recipe, path, data=data, soft_labels=labels, trust=trust, on_step=on_step, on_estimate=on_estimate)


def default_voter(recipe: Recipe) -> Recipe:
    """Return the shipped Gaussian recipe at sigma 0.25, as in the CAT-RS paper, with this dataset and model."""
    folder = "imagenet" if recipe.dataset["name"] == "folder" else recipe.dataset["name"]
    shipped = recipes.read(recipes.find(f"{folder}/gaussian-0.25"))
    same = {key: getattr(recipe, key) for key in ("dataset", "model", "normalisation", "seed")}
    return replace(shipped, **same)


def needs_soft_labels(recipe: Recipe) -> bool:
    """Return whether the objective of a recipe learns from soft labels."""
    try:
        objectives.create(recipe.objective["name"], sigma=recipe.sigma, **fields_of(recipe.objective))
    except MissingResourceError as error:
        return error.parameter == "soft_labels"
    return False


# The cost of the teacher's method


def _time_teacher_method(student: Run, teacher: Run, data: Path | None) -> None:
    """Write transfer.json: the time of an epoch of the first teacher's method on the student's architecture.

    It is extrapolated from a few steps, because transfer replaces the whole training.
    """
    *_, first = teacher, *teachers(teacher)
    file = student.path / "transfer.json"
    recipe = first.recipe
    if file.is_file() or recipe.training is None:
        return
    student_recipe = student.recipe
    inner = [key for key in models.inner_models(recipe.model["name"]) if not isinstance(recipe.model[key], tuple)]
    # A denoiser is put in front of the student; other methods train the student's model itself.
    model = {**recipe.model, **dict.fromkeys(inner, str(student.path))} if inner else student_recipe.model
    # Initial weights would be of another architecture.
    training = replace(recipe.training, initial=None)
    components = build(
        replace(recipe, model=model, dataset=student_recipe.dataset, training=training),
        open_dataset(student_recipe, data, student.path).data,
        soft_labels=first.source("soft_labels"),
        trust=teacher.trusted,
    )
    per_step = components.training.images_per_step
    cost = {
        "method": recipe.objective["name"],
        "method_seconds_per_epoch": time_steps(components).step * len(components.images) / per_step,
        "steps_timed": TIMED_STEPS,
        "seconds_before": seconds_before(student),
    }
    disk.write_json(file, cost)

"""radii transfer: transfer a teacher's robustness to students of other architectures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import console
from radii.cli.arguments import (
    OPTIONS,
    RUN_FLAGS,
    Data,
    Minutes,
    Settings,
    Strings,
    Switch,
    Trust,
    Whole,
    check_minutes,
)
from radii.cli.estimates import announce
from radii.cli.progress import TrainingBar
from radii.cli.train import print_trained
from radii.runs import recipe as recipes
from radii.runs.run import Run, RunError


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Options:
    """What `radii transfer` takes."""

    model: Annotated[list[str], Parameter(negative="", json_list=False)]
    """The student's architecture: a name, or a table of name and fields. Several are trained as a chain, or as
    siblings."""
    teacher: Path | None = None
    """The run of the first teacher. With --bootstrap, the directory to train it in; by default
    runs/DATASET-RECIPE-MODEL."""
    bootstrap: Path | None = None
    """Train a teacher with this recipe first."""
    teacher_model: str | None = None
    """The architecture of the teacher that --bootstrap trains; by default the recipe's."""
    teacher_set: Strings = None
    """KEY=VALUE: override a key in the recipe of the teacher that --bootstrap trains."""
    voter_set: Strings = None
    """KEY=VALUE: override a key in the recipe of the run that votes on the soft labels of a `catrs` teacher. By
    default, that recipe is the shipped Gaussian one at sigma 0.25, with the teacher's model, data and seed."""
    votes: Whole = 10_000
    """The number of noisy copies of each image for these soft labels."""
    recipe: Path | None = None
    """The student's recipe; by default the shipped transfer recipe of the teacher's dataset, at its sigma."""
    run: Annotated[Path | None, Parameter(name=RUN_FLAGS)] = None
    """The student's directory; by default TEACHER-to-MODEL beside the teacher."""
    siblings: Switch = False
    """Let the first teacher teach every student, instead of each student the next. Its answers are computed once, for
    the first of them, and kept in TEACHER/tapes."""
    set: Settings = None
    minutes: Minutes = None
    data: Data = None
    trust: Trust = None


def transfer(*, options: Options) -> None:
    """Transfer a teacher's robustness to students, at about the cost of plain training. Each teaches the next."""
    from radii.training.fine_tuning import student_recipe
    from radii.training.transfer import train_students

    settings, data = options.set or (), options.data
    check_minutes(options.minutes, settings)
    if ignored := [setting for setting in settings if setting.startswith(("model=", "model."))]:
        raise ValueError(
            f"--set {ignored[0]} sets the recipe's model, which --model replaces. "
            "Give the fields in --model, such as --model '{ name = \"vit\", width = 96 }'."
        )
    teacher = _teacher(options)
    recipe = options.recipe
    stated = recipes.read(recipes.find(recipe), settings) if recipe else student_recipe(teacher, settings, data)
    students = [recipes.parse_value(text) for text in options.model]
    with TrainingBar(console) as bar:
        for student in train_students(
            teacher,
            stated,
            students,
            run=options.run,
            data=data,
            siblings=options.siblings,
            minutes=options.minutes,
            on_step=bar,
            on_estimate=announce(bar),
        ):
            print_trained(student)


def _teacher(options: Options) -> Run:
    """Return the first teacher, and train it first with --bootstrap."""
    if options.bootstrap is not None:
        return _train_teacher(options.bootstrap, options)
    if options.teacher is None:
        raise ValueError("There is no teacher. Name one with --teacher RUN, or train one with --bootstrap RECIPE.")
    if options.teacher_model or options.teacher_set or options.voter_set:
        raise ValueError("--teacher-model, --teacher-set and --voter-set need --bootstrap. Add it, or leave them out.")
    return Run(options.teacher, options.trust or ())


def _train_teacher(recipe: Path, options: Options) -> Run:
    """Train the first teacher, and before it the run that votes on its soft labels if its objective needs them."""
    from radii.training.transfer import bootstrap, default_voter, needs_soft_labels

    path = recipes.find(recipe)
    model = [f"model={options.teacher_model}"] if options.teacher_model else []
    stated = recipes.read(path, [*model, *(options.teacher_set or ())])
    voter = None
    if options.voter_set:
        if not needs_soft_labels(stated):
            raise ValueError(f"The objective {stated.objective['name']!r} uses no soft labels. Leave out --voter-set.")
        voter = recipes.with_settings(default_voter(stated), "the run that votes", options.voter_set)
    folder = options.teacher or Path("runs") / f"{stated.dataset['name']}-{path.stem}-{stated.model['name']}"
    try:
        with TrainingBar(console) as bar:
            trained = bootstrap(
                stated,
                folder,
                voter=voter,
                votes=options.votes,
                data=options.data,
                on_step=bar,
                on_estimate=announce(bar),
            )
    except RunError as error:
        # This run is named with --teacher; --run names the student's.
        raise RunError(str(error), "teacher_run" if error.parameter == "run" else error.parameter) from error
    print_trained(trained)
    return trained

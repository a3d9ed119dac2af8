"""radii transfer: transfer a teacher's robustness to students of other architectures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import console
from radii.cli.arguments import RUN_FLAGS, Data, Minutes, Settings, Strings, Switch, Trust, Whole, check_minutes
from radii.cli.estimates import announce
from radii.cli.progress import TrainingBar
from radii.cli.train import print_trained
from radii.runs import recipe as recipes
from radii.runs.run import Run, RunError


def transfer(
    *,
    model: Annotated[list[str], Parameter(negative="", json_list=False)],
    teacher: Path | None = None,
    bootstrap: Path | None = None,
    teacher_model: str | None = None,
    teacher_set: Strings = None,
    voter_set: Strings = None,
    votes: Whole = 10_000,
    recipe: Path | None = None,
    run: Annotated[Path | None, Parameter(name=RUN_FLAGS)] = None,
    siblings: Switch = False,
    set: Settings = None,
    minutes: Minutes = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Transfer a teacher's robustness to students, at about the cost of plain training. Each student teaches the next.

    Args:
        model: The student's architecture: a name, or a table of name and fields. Several are trained as a chain, or
            as siblings.
        teacher: The run of the first teacher. With --bootstrap, the directory to train it in; by default
            runs/DATASET-RECIPE-MODEL.
        bootstrap: Train a teacher with this recipe first.
        teacher_model: The architecture of the teacher that --bootstrap trains; by default the recipe's.
        teacher_set: KEY=VALUE: override a key in the recipe of the teacher that --bootstrap trains.
        voter_set: KEY=VALUE: override a key in the recipe of the run that votes on the soft labels of a `catrs`
            teacher. By default, that recipe is the shipped Gaussian one at sigma 0.25, with the teacher's model, data
            and seed.
        votes: The number of noisy copies of each image for these soft labels.
        recipe: The student's recipe; by default the shipped transfer recipe of the teacher's dataset, at its sigma.
        run: The student's directory; by default TEACHER-to-MODEL beside the teacher.
        siblings: Let the first teacher teach every student, instead of each student the next. Its answers are computed
            once, for the first of them, and kept in TEACHER/tapes.
    """
    from radii.training.fine_tuning import student_recipe
    from radii.training.transfer import train_students

    settings = set or ()
    check_minutes(minutes, settings)
    if ignored := [setting for setting in settings if setting.startswith(("model=", "model."))]:
        raise ValueError(
            f"--set {ignored[0]} sets the recipe's model, which --model replaces. "
            "Give the fields in --model, such as --model '{ name = \"vit\", width = 96 }'."
        )
    if bootstrap is not None:
        teacher_settings = [*([f"model={teacher_model}"] if teacher_model else []), *(teacher_set or [])]
        first = _train_teacher(bootstrap, teacher, teacher_settings, voter_set or (), votes, data)
    elif teacher is None:
        raise ValueError("There is no teacher. Name one with --teacher RUN, or train one with --bootstrap RECIPE.")
    elif teacher_model or teacher_set or voter_set:
        raise ValueError("--teacher-model, --teacher-set and --voter-set need --bootstrap. Add it, or leave them out.")
    else:
        first = Run(teacher, trust or ())
    stated = recipes.read(recipes.find(recipe), settings) if recipe else student_recipe(first, settings, data)
    students = [recipes.parse_value(text) for text in model]
    with TrainingBar(console) as bar:
        for student in train_students(
            first,
            stated,
            students,
            run=run,
            data=data,
            siblings=siblings,
            minutes=minutes,
            on_step=bar,
            on_estimate=announce(bar),
        ):
            print_trained(student)


def _train_teacher(
    recipe: Path,
    run: Path | None,
    settings: Sequence[str],
    voter_settings: Sequence[str],
    votes: int,
    data: Path | None,
) -> Run:
    """Train the first teacher, and before it the run that votes on its soft labels if its objective needs them."""
    from radii.training.transfer import bootstrap, default_voter, needs_soft_labels

    path = recipes.find(recipe)
    stated = recipes.read(path, settings)
    voter = None
    if voter_settings:
        if not needs_soft_labels(stated):
            raise ValueError(f"The objective {stated.objective['name']!r} uses no soft labels. Leave out --voter-set.")
        voter = recipes.with_settings(default_voter(stated), "the run that votes", voter_settings)
    folder = run or Path("runs") / f"{stated.dataset['name']}-{path.stem}-{stated.model['name']}"
    try:
        with TrainingBar(console) as bar:
            trained = bootstrap(stated, folder, voter=voter, votes=votes, data=data, on_step=bar)
    except RunError as error:
        # This run is named with --teacher; --run names the student's.
        raise RunError(str(error), "teacher_run" if error.parameter == "run" else error.parameter) from error
    print_trained(trained)
    return trained

"""radii transfer: transfer a teacher's robustness to students of other architectures."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import app, console
from radii.cli.arguments import Data, Settings, Strings, Trust, Whole
from radii.cli.progress import TrainingBar
from radii.cli.train import print_trained
from radii.runs import recipe as recipes
from radii.runs.from_run import transfer_recipe
from radii.runs.run import Run, RunError


@app.command
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
    run: Path | None = None,
    set: Settings = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Transfer a teacher's robustness to students at about the cost of plain training; each teaches the next.

    Args:
        model: The student's architecture, or a table with its fields; several are trained as a chain.
        teacher: The run of the first teacher; with --bootstrap, where it is trained, by default in
            runs/DATASET-RECIPE-MODEL.
        bootstrap: The recipe to train a teacher with first.
        teacher_model: The architecture of the teacher that --bootstrap trains; by default the recipe's.
        teacher_set: KEY=VALUE that overrides the recipe of the teacher that --bootstrap trains.
        voter_set: KEY=VALUE that overrides the recipe of the run whose votes are the soft labels of a `catrs` teacher:
            the shipped Gaussian one at sigma 0.25, with the teacher's model, data and seed.
        votes: Noisy copies of each image for these soft labels.
        recipe: The student's recipe; by default the shipped transfer recipe of the teacher's dataset, at its sigma.
        run: The student's directory; by default TEACHER-to-MODEL beside the teacher.
    """
    from radii.training.transfer import transfer as transfer_runs

    if ignored := [each for each in set or () if each.startswith(("model=", "model."))]:
        raise ValueError(
            f"--set {ignored[0]} is of the recipe's model, which --model replaces: give its fields there, "
            "such as --model '{ name = \"vit\", width = 96 }'"
        )
    if bootstrap is not None:
        settings = [*([f"model={teacher_model}"] if teacher_model else []), *(teacher_set or [])]
        first = _bootstrapped(bootstrap, teacher, settings, voter_set or [], votes, data)
    elif teacher is None:
        raise ValueError("name --teacher RUN, or --bootstrap RECIPE to train a teacher first")
    elif teacher_model or teacher_set or voter_set:
        raise ValueError("--teacher-model, --teacher-set and --voter-set are of --bootstrap: leave them out")
    else:
        first = Run(teacher, trust or ())
    schedule = recipes.read(recipes.find(recipe), set or ()) if recipe else transfer_recipe(first, set or ())
    students = [recipes.parse_value(each) for each in model]
    with TrainingBar(console) as bar:
        for student in transfer_runs(first, schedule, students, run=run, data=data, on_step=bar):
            print_trained(student)


def _bootstrapped(
    recipe: Path, run: Path | None, settings: list[str], voting: list[str], votes: int, data: Path | None
) -> Run:
    """Train a teacher with a recipe, and before it the run that votes, if any."""
    from radii.training.bootstrap import bootstrap, default_voter, needs_soft_labels

    path = recipes.find(recipe)
    wanted = recipes.read(path, settings)
    if voting and not needs_soft_labels(wanted):
        raise ValueError(f"--voter-set: objective {wanted.objective['name']!r} learns from no soft labels")
    voter = recipes.with_settings(default_voter(wanted), "the run that votes", voting) if voting else None
    usual = Path("runs") / f"{wanted.dataset['name']}-{path.stem}-{wanted.model['name']}"
    try:
        with TrainingBar(console) as bar:
            done = bootstrap(wanted, run or usual, voter=voter, votes=votes, data=data, on_step=bar)
    except RunError as error:
        raise RunError(str(error), "teacher_run" if error.parameter == "run" else error.parameter) from error
    print_trained(done)
    return done

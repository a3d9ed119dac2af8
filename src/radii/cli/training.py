"""Commands that make models: train, transfer, soft-labels."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import app, console, hint, say
from radii.cli.arguments import Data, Overrides, Settings, Trust, Whole, command
from radii.cli.cluster import Cluster, executor_at
from radii.cli.launched import is_first
from radii.cli.notices import warnings_in_words
from radii.cli.progress import CountingBar, TrainingBar
from radii.cli.tensorboard import step_writer
from radii.report.summary import down
from radii.runs import recipe as recipes
from radii.runs.from_run import recipe_from, transfer_recipe
from radii.runs.run import Run, RunError


@app.command
def train(
    recipe: Path,
    /,
    *,
    run: Path,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    set: Settings = None,
    teacher: Path | None = None,
    soft_labels: Path | None = None,
    tensorboard: Annotated[bool, Parameter(negative="")] = False,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Train a recipe in a run directory; the same command continues a run that was stopped.

    Args:
        recipe: A recipe file, or the name of one that `radii list` shows; with --from also the name of an objective.
        run: The run directory to create or continue.
        from_: A trained run to go on from, with its data, model and sigma: `denoising` puts a denoiser in front of its
            model, any other objective fine-tunes it.
        teacher: The run of the teacher, for the objective `transfer`.
        soft_labels: The file that `radii soft-labels` wrote, for the objective `catrs`.
        tensorboard: Write loss and accuracy for TensorBoard to RUN/tensorboard too.
    """
    from radii.training.train import train as train_run

    start = None if from_ is None else Run(from_, trust or ())
    wanted = recipe_from(start, recipe, set or ()) if start else recipes.read(recipes.find(recipe), set or ())
    taught_by = None if teacher is None else Run(teacher, trust or ())
    with TrainingBar(console) as bar, step_writer(run, bar, wanted=tensorboard and is_first()) as on_step:
        done = train_run(
            wanted, run, data=data, teacher=taught_by, soft_labels=soft_labels, trust=trust or (), on_step=on_step
        )
    print_trained(done)


@app.command
def transfer(
    *,
    model: Annotated[list[str], Parameter(negative="", json_list=False)],
    teacher: Path | None = None,
    bootstrap: Path | None = None,
    teacher_model: str | None = None,
    teacher_set: Overrides = None,
    voter_set: Overrides = None,
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
    voter = recipes.parse(default_voter(wanted).to_toml(), "the run that votes", voting) if voting else None
    usual = Path("runs") / f"{wanted.dataset['name']}-{path.stem}-{wanted.model['name']}"
    try:
        with TrainingBar(console) as bar:
            done = bootstrap(wanted, run or usual, voter=voter, votes=votes, data=data, on_step=bar)
    except RunError as error:
        raise RunError(str(error), "teacher_run" if error.parameter == "run" else error.parameter) from error
    print_trained(done)
    return done


@app.command
def soft_labels(
    run: Path,
    /,
    *,
    samples: Whole = 10_000,
    settle: Whole | None = None,
    seed: Whole = 0,
    engine: str = "auto",
    workers: Whole | None = None,
    cluster: Cluster = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Write the shares of a run's votes on noisy copies of every training image: the soft labels of `catrs`.

    The same command continues where it stopped; the values do not depend on the number of workers.

    Args:
        run: A trained run directory, usually plain Gaussian at sigma 0.25.
        samples: Noisy copies of each image.
        settle: An image whose first SETTLE votes, a multiple of 128, are all for one class gets no more: its shares are
            1 and 0, which more votes could change a little. By default every image gets all.
        seed: The seed of the noise.
        engine: What runs the forward passes; auto takes the fastest that is installed.
        workers: Processes of one thread each; by default one for each core, or for each GPU.
    """
    from radii.training.soft_labels import soft_labels as write_soft_labels

    voting = Run(run, trust or ())
    with warnings_in_words(), executor_at(cluster, workers) as executor, CountingBar(console) as bar:
        path = write_soft_labels(
            voting,
            samples=samples,
            settle=settle,
            seed=seed,
            engine=engine,
            data=data,
            workers=workers,
            executor=executor,
            on_image=bar,
        )
    say(str(path))
    hint(f"next: radii train RECIPE --soft-labels {shlex.quote(str(path))} --run RUN")


def print_trained(run: Run) -> None:
    rows = run.history()
    accuracy = rows[-1].get("noisy_test_accuracy") if rows else None
    reached = "" if accuracy is None else f", noisy test accuracy {down(float(accuracy), 4)}"
    say(f"{run.path}: trained {len(rows)} epochs{reached}")
    hint(f"next: {command('certify', run.path)}")

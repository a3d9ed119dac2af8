"""radii train: train a recipe in a run directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import console, is_rank_0, printed_warnings, say, suggest
from radii.cli.arguments import RUN_FLAGS, Data, Minutes, Settings, Trust, check_minutes, command
from radii.cli.estimates import announce
from radii.cli.progress import TrainingBar
from radii.cli.trackers import NO_TRACKERS, Trackers, step_writer
from radii.reports.text import down
from radii.runs import recipe as recipes
from radii.runs.recipe import Recipe
from radii.runs.run import Run


def train(
    recipe: Path,
    /,
    *,
    run: Annotated[Path, Parameter(name=RUN_FLAGS)],
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    set: Settings = None,
    minutes: Minutes = None,
    teacher: Path | None = None,
    soft_labels: Path | None = None,
    trackers: Trackers = NO_TRACKERS,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Train a recipe in a run directory. The same command continues a run that was stopped.

    Args:
        recipe: A recipe file, or the name of a shipped recipe (see `radii list recipes`). With --from, also the name
            of an objective; without it too, if dataset, model and sigma are set.
        run: The run directory to create or continue.
        from_: Start from this trained run, with its data, model and sigma. The objective `denoising` puts a denoiser
            in front of its model; any other objective fine-tunes the model.
        teacher: The teacher's run, for the objective `transfer`.
        soft_labels: A file written by `radii soft-labels`, for the objective `catrs`.
    """
    from radii.training.loop import train as train_run

    trusted, settings = trust or (), set or ()
    check_minutes(minutes, settings)
    start = None if from_ is None else Run(from_, trusted)
    stated = _stated_recipe(recipe, settings, data, start)
    tracked = trackers.names() if is_rank_0() else []
    with printed_warnings(), TrainingBar(console) as bar, step_writer(run, bar, tracked) as on_step:
        trained = train_run(
            stated,
            run,
            data=data,
            teacher=None if teacher is None else Run(teacher, trusted),
            soft_labels=soft_labels,
            trust=trusted,
            minutes=minutes,
            on_step=on_step,
            on_estimate=announce(bar, cheaper="--minutes 30"),
        )
    print_trained(trained)


def _stated_recipe(recipe: Path, settings: Sequence[str], data: Path | None, start: Run | None) -> Recipe:
    """Read a recipe, or make one from an objective and the settings; or one that continues from the run `start`."""
    from radii import objectives
    from radii.training.fine_tuning import fine_tuning_recipe, scratch_recipe

    if start is not None:
        return fine_tuning_recipe(start, recipe, settings, data)
    if str(recipe) in objectives.names() and not recipe.exists():
        return scratch_recipe(str(recipe), settings, data)
    return recipes.read(recipes.find(recipe), settings)


def print_trained(run: Run) -> None:
    """Print how long a run was trained, and the next command."""
    say(f"{run.path}: trained {len(run.history())} epochs{accuracy_text(run)}")
    suggest(f"next, in 3 min: {command('audit', run.path, minutes=3)}")


def accuracy_text(run: Run) -> str:
    """Return the noisy test accuracy after the last epoch, to append to a line; empty if it was not measured."""
    rows = run.history()
    accuracy = rows[-1].get("noisy_test_accuracy") if rows else None
    return "" if accuracy is None else f", noisy test accuracy {down(float(accuracy), 4)}"

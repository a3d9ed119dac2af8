"""radii train: train a recipe in a run directory."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import app, console, hint, is_rank_0, say
from radii.cli.arguments import RUN_FLAGS, Data, Settings, Switch, Trust, command
from radii.cli.progress import TrainingBar
from radii.cli.tensorboard import step_writer
from radii.reports.text import down
from radii.runs import recipe as recipes
from radii.runs.run import Run
from radii.runs.trust import require_data


@app.command
def train(
    recipe: Path,
    /,
    *,
    run: Annotated[Path, Parameter(name=RUN_FLAGS)],
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    set: Settings = None,
    teacher: Path | None = None,
    soft_labels: Path | None = None,
    tensorboard: Switch = False,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Train a recipe in a run directory. The same command continues a run that was stopped.

    Args:
        recipe: A recipe file, or the name of a shipped recipe (see `radii list recipes`). With --from, also the name
            of an objective.
        run: The run directory to create or continue.
        from_: Start from this trained run, with its data, model and sigma. The objective `denoising` puts a denoiser
            in front of its model; any other objective fine-tunes the model.
        teacher: The teacher's run, for the objective `transfer`.
        soft_labels: A file written by `radii soft-labels`, for the objective `catrs`.
        tensorboard: Also write loss and accuracy for TensorBoard, to RUN/tensorboard.
    """
    from radii.training.loop import train as train_run

    trusted, settings = trust or (), set or ()
    if from_ is None:
        stated = recipes.read(recipes.find(recipe), settings)
    else:
        start = Run(from_, trusted)
        stated = recipes.recipe_from(start.recipe, start.path, recipe, settings)
        if data is None and stated.dataset.get("path") and not any(key.startswith("dataset") for key in settings):
            require_data(Path(stated.dataset["path"]), stated.dataset["name"], start.path)
    teacher_run = None if teacher is None else Run(teacher, trusted)
    with TrainingBar(console) as bar, step_writer(run, bar, enabled=tensorboard and is_rank_0()) as on_step:
        trained = train_run(
            stated, run, data=data, teacher=teacher_run, soft_labels=soft_labels, trust=trusted, on_step=on_step
        )
    print_trained(trained)


def print_trained(run: Run) -> None:
    """Print how long a run was trained, and the next command."""
    say(f"{run.path}: trained {len(run.history())} epochs{accuracy_text(run)}")
    hint(f"next: {command('certify', run.path)}")


def accuracy_text(run: Run) -> str:
    """Return the noisy test accuracy after the last epoch, to append to a line; empty if it was not measured."""
    rows = run.history()
    accuracy = rows[-1].get("noisy_test_accuracy") if rows else None
    return "" if accuracy is None else f", noisy test accuracy {down(float(accuracy), 4)}"

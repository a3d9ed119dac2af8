"""radii train: train a recipe in a run directory."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import app, console, hint, is_rank_0, say
from radii.cli.arguments import Data, Settings, Trust, command
from radii.cli.progress import TrainingBar
from radii.cli.tensorboard import step_writer
from radii.reports.summary import down
from radii.runs import recipe as recipes
from radii.runs.from_run import recipe_from
from radii.runs.run import Run


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
    with TrainingBar(console) as bar, step_writer(run, bar, wanted=tensorboard and is_rank_0()) as on_step:
        done = train_run(
            wanted, run, data=data, teacher=taught_by, soft_labels=soft_labels, trust=trust or (), on_step=on_step
        )
    print_trained(done)


def print_trained(run: Run) -> None:
    rows = run.history()
    accuracy = rows[-1].get("noisy_test_accuracy") if rows else None
    reached = "" if accuracy is None else f", noisy test accuracy {down(float(accuracy), 4)}"
    say(f"{run.path}: trained {len(rows)} epochs{reached}")
    hint(f"next: {command('certify', run.path)}")

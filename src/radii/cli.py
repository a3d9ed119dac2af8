"""The command line: one verb for each job."""

import math
import sys
import tomllib
from pathlib import Path
from typing import Annotated, NoReturn, cast

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from radii import plugins
from radii.arguments import parse_radii, parse_settings, recipe_path, transfer_recipe
from radii.experiment import recipe as recipes
from radii.experiment.run import Run
from radii.progress import CertificationBar, CountingBar, TrainingBar

app = App(
    name="radii",
    help="Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing.",
)
console = Console(highlight=False)

Data = Annotated[Path | None, Parameter(help="Folder with the datasets' files; RADII_DATA otherwise.")]
Settings = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="KEY=VALUE laid over the recipe or the procedure."),
]


@app.command
def train(
    recipe: Path,
    /,
    *,
    run: Path,
    set: Settings = None,
    teacher: Path | None = None,
    soft_labels: Path | None = None,
    data: Data = None,
) -> None:
    """Train a recipe in a run directory; the same command continues a run that was stopped.

    Args:
        recipe: A recipe file, or the name of one that `radii list` shows.
        run: The run directory to make or continue.
        teacher: The run that teaches, for the objective `transfer`.
        soft_labels: The file that `radii soft-labels` wrote, for the objective `catrs`.
    """
    from radii.engine.train import train as train_run

    wanted = recipes.read(recipe_path(recipe), set or ())
    with TrainingBar(console) as bar:
        done = train_run(wanted, run, data=data, teacher=teacher, soft_labels=soft_labels, watch=bar)
    tell_trained(done)


@app.command
def transfer(
    *,
    model: Annotated[list[str], Parameter(negative="")],
    teacher: Path | None = None,
    bootstrap: Path | None = None,
    teacher_model: str | None = None,
    recipe: Path | None = None,
    run: Path | None = None,
    set: Settings = None,
    data: Data = None,
) -> None:
    """Train students to a teacher's robustness at about the price of plain training; each teaches the next.

    Args:
        model: The student's architecture; several make a chain.
        teacher: The run that teaches first.
        bootstrap: Without a teacher: the recipe to train one by.
        teacher_model: The architecture of the teacher that --bootstrap trains; by default the recipe's own.
        recipe: The student's recipe; by default the shipped transfer recipe of the teacher's dataset and sigma.
        run: The student's directory; by default TEACHER-to-MODEL beside the teacher.
    """
    from radii.engine.train import train as train_run
    from radii.engine.transfer import chain

    if (teacher is None) == (bootstrap is None):
        raise ValueError("name either --teacher RUN, or --bootstrap RECIPE to train a teacher first")
    if bootstrap is None:
        first = Run(cast(Path, teacher))
    else:
        wanted = recipes.read(recipe_path(bootstrap), [f"model={teacher_model}"] if teacher_model else [])
        path = Path("runs") / f"{wanted.dataset}-{recipe_path(bootstrap).stem}-{wanted.model}"
        with TrainingBar(console) as bar:
            first = train_run(wanted, path, data=data, watch=bar)
        tell_trained(first)
    schedule = recipes.read(recipe_path(recipe) if recipe else transfer_recipe(first), set or ())
    with TrainingBar(console) as bar:
        for student in chain(first, schedule, model, run=run, data=data, watch=bar):
            tell_trained(student)


@app.command(name="import")
def import_(
    checkpoint: Path,
    /,
    *,
    dataset: str,
    model: str,
    run: Path,
    normalisation: str = "full",
    sigma: float = 0.25,
    data: Data = None,
) -> None:
    """Make a run of a checkpoint that was trained elsewhere.

    Args:
        checkpoint: A file that torch wrote; one that needs more than tensors is refused.
        dataset: What it was trained on.
        model: Its architecture.
        run: The run directory to make.
        normalisation: full (centre and divide), centre, or none: as the checkpoint's authors did.
        sigma: The noise that it was trained with.
    """
    from radii.engine.foreign import import_checkpoint

    wanted = recipes.Recipe(
        dataset=dataset, model=model, sigma=sigma, normalisation=normalisation, objective={"name": "imported"}
    )
    import_checkpoint(checkpoint, wanted, run, data=data)
    console.print(f"{run}: imported for sigma {sigma:g}; next: radii certify {run}", soft_wrap=True)


@app.command
def soft_labels(run: Path, /, *, samples: int = 10_000, seed: int = 0, engine: str = "auto", data: Data = None) -> None:
    """Write how a run votes on noisy copies of every training image: the soft labels of `catrs`.

    Args:
        run: A trained run directory, usually plain Gaussian at sigma 0.25.
        samples: Noisy copies of each image.
        seed: The seed of the noise.
        engine: How forward passes are made; auto takes the fastest that is installed.
    """
    from radii.engine.soft_labels import soft_labels as write_soft_labels

    with CountingBar(console) as bar:
        path = write_soft_labels(Run(run), samples=samples, seed=seed, engine=engine, data=data, watch=bar)
    console.print(f"{path}: next: radii train RECIPE --soft-labels {path} --run RUN", soft_wrap=True)


@app.command
def certify(
    run: Path,
    /,
    *,
    with_: Annotated[str, Parameter(name="--with")] = "fixed",
    radii: str | None = None,
    every: int = 1,
    max: int | None = None,
    seed: int = 0,
    engine: str = "auto",
    workers: int | None = None,
    linf: Annotated[bool, Parameter(negative="")] = False,
    set: Settings = None,
    data: Data = None,
) -> None:
    """Certify test images of a run; the same command continues where it stopped.

    Args:
        run: A trained run directory.
        with_: The procedure, one that `radii list` shows.
        radii: Radii to decide, such as 0,0.25,0.5, for a procedure that takes them.
        every: Every how-manieth test image.
        max: At most this many images.
        seed: The seed of the noise, named before looking at any result.
        engine: How forward passes are made; auto takes the fastest that is installed.
        workers: Processes of one thread each; by default one a core.
        linf: Show the average certified l-infinity radius too.
    """
    from radii import certifiers
    from radii.engine.build import frame_of
    from radii.engine.certify import Plan, certify_run
    from radii.smoothing.bounds import linf_radius

    fields = parse_settings(set or [])
    if radii is not None:
        fields["radii"] = parse_radii(radii)
    plan = Plan(
        run=run,
        procedure=certifiers.create(with_, **fields),
        seed=seed,
        every=every,
        most=max,
        engine=engine,
        data=data,
    )
    with CertificationBar(console) as bar:
        path = certify_run(plan, workers=workers, watch=bar)
    console.print(f"{path}: {bar.summary()}; next: radii report {run}", soft_wrap=True)
    if linf:
        dimensions = math.prod(frame_of(Run(run)).shape)
        radius = linf_radius(bar.average_radius(), dimensions)
        console.print(f"average certified l-infinity radius {radius:.5f}: l2 over the square root of {dimensions}")


@app.command
def predict(run: Path, image: Path, /, *, engine: str = "auto", set: Settings = None) -> None:
    """The class of a picture, or "abstains" when the vote is too close to call.

    Args:
        run: A trained run directory.
        image: A picture file of the model's size.
        engine: How forward passes are made: the one that the model was certified with.
    """
    from radii.engine.answer import predict as predict_image
    from radii.engine.build import frame_of, load, read_picture

    picture = read_picture(image, frame_of(Run(run)).shape)
    answer = predict_image(load(run, engine=engine), picture, **parse_settings(set or []))
    console.print("abstains" if answer.prediction < 0 else str(answer.prediction))


@app.command
def report(*inputs: Path, out: Path | None = None) -> None:
    """Tables and curves of runs or certificate files: Markdown, CSV, LaTeX, SVG, PNG and one HTML page.

    Args:
        inputs: Run directories or certificate files in Cohen's format, from any tool.
        out: The folder to write to; by default RUN/report for one run, ./report otherwise.
    """
    from radii.report import report as write_report

    if not inputs:
        raise ValueError("nothing to report: name runs or certificate files")
    if out is None:
        out = inputs[0] / "report" if len(inputs) == 1 and inputs[0].is_dir() else Path("report")
    console.print(str(write_report(inputs, out)), soft_wrap=True)


@app.command(name="list")
def list_() -> None:
    """The objectives, certifiers, models, datasets and recipes there are."""
    for folder in ("objectives", "certifiers", "models", "datasets"):
        entries = (
            {name: text for name, (_, text) in plugins.functions(folder).items()}
            if folder == "models"
            else plugins.describe(folder)
        )
        console.print(f"[bold]{folder}[/bold]")
        for name, text in sorted(entries.items()):
            console.print(f"  {name:<18} {text}", soft_wrap=True, markup=False)
    console.print("[bold]recipes[/bold]")
    for shelf in sorted(path for path in plugins.recipes_folder().iterdir() if path.is_dir()):
        named = " ".join(path.stem for path in sorted(shelf.glob("*.toml")))
        console.print(f"  {shelf.name + '/':<18} {named}", soft_wrap=True, markup=False)


@app.command
def demo(*, run: Path = Path("runs/demo")) -> None:
    """Train on the embedded digits, certify and write a page that tells the story, in a few minutes on two cores.

    Args:
        run: Where the demonstration's runs and report go.
    """
    from radii.demo import tell

    tell(run, console)


def tell_trained(run: Run) -> None:
    rows = run.history()
    accuracy = float(rows[-1]["noisy_test_accuracy"])
    console.print(
        f"{run.path}: trained {len(rows)} epochs, noisy test accuracy {accuracy:.4f}; next: radii certify {run.path}",
        soft_wrap=True,
    )


def main() -> NoReturn:
    """Run the command line: one sentence and a non-zero exit for whatever a person can put right."""
    try:
        app(sys.argv[1:], console=console, error_console=Console(stderr=True), exit_on_error=False, print_error=True)
    except CycloptsError:
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit("radii: stopped; the same command continues")
    except (ValueError, LookupError, OSError, tomllib.TOMLDecodeError) as error:
        message = error.args[0] if isinstance(error, LookupError) and error.args else error
        print(f"radii: {message}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)

"""The commands, one function each."""

import math
from pathlib import Path
from typing import Annotated, cast

from cyclopts import Parameter

from radii import plugins
from radii.cli.app import app, console
from radii.cli.arguments import Data, Settings, Trust, Whole, parse_fields, parse_numbers
from radii.cli.notices import warnings_in_words
from radii.cli.progress import CertificationBar, CountingBar, TrainingBar
from radii.experiment import certificates
from radii.experiment import recipe as recipes
from radii.experiment.from_run import recipe_from
from radii.experiment.run import Run
from radii.report.facts import bias
from radii.report.summary import Summary, down, in_words
from radii.report.text import plain


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
    """
    from radii.loops.train import train as train_run

    start = None if from_ is None else Run(from_, trust or ())
    wanted = recipe_from(start, recipe, set or ()) if start else recipes.read(recipes.find(recipe), set or ())
    taught_by = None if teacher is None else Run(teacher, trust or ())
    with TrainingBar(console) as bar:
        done = train_run(
            wanted, run, data=data, teacher=taught_by, soft_labels=soft_labels, trust=trust or (), on_step=bar
        )
    print_trained(done)


@app.command
def transfer(
    *,
    model: Annotated[list[str], Parameter(negative="", json_list=False)],
    teacher: Path | None = None,
    bootstrap: Path | None = None,
    teacher_model: str | None = None,
    recipe: Path | None = None,
    run: Path | None = None,
    set: Settings = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Transfer a teacher's robustness to students at about the cost of plain training; each teaches the next.

    Args:
        model: The student's architecture; several are trained as a chain.
        teacher: The run of the first teacher.
        bootstrap: Instead of --teacher, the recipe to train a teacher with.
        teacher_model: The architecture of the teacher that --bootstrap trains; by default the recipe's.
        recipe: The student's recipe; by default the shipped transfer recipe of the teacher's dataset and sigma.
        run: The student's directory; by default TEACHER-to-MODEL beside the teacher.
    """
    from radii.loops.transfer import transfer as transfer_runs

    if (teacher is None) == (bootstrap is None):
        raise ValueError("name either --teacher RUN, or --bootstrap RECIPE to train a teacher first")
    first = Run(cast(Path, teacher), trust or ()) if bootstrap is None else _trained(bootstrap, teacher_model, data)
    taught = first.recipe
    found = recipes.find(recipe) if recipe else recipes.transfer_recipe(taught.dataset, taught.sigma)
    schedule = recipes.read(found, set or ())
    students = [recipes.parse_value(each) for each in model]
    with TrainingBar(console) as bar:
        for student in transfer_runs(first, schedule, students, run=run, data=data, on_step=bar):
            print_trained(student)


def _trained(recipe: Path, model: str | None, data: Path | None) -> Run:
    """Train a teacher with a recipe, in runs/DATASET-RECIPE-MODEL."""
    from radii.loops.train import train as train_run

    path = recipes.find(recipe)
    wanted = recipes.read(path, [f"model={model}"] if model else [])
    name = f"{wanted.dataset['name']}-{path.stem}-{wanted.model['name']}"
    with TrainingBar(console) as bar:
        done = train_run(wanted, Path("runs") / name, data=data, on_step=bar)
    print_trained(done)
    return done


@app.command(name="import")
def import_(
    file: Path,
    /,
    *,
    run: Path,
    dataset: str | None = None,
    model: str | None = None,
    normalisation: str = "full",
    sigma: float = 0.25,
    size: Whole | None = None,
    mean: str | None = None,
    std: str | None = None,
    data: Data = None,
) -> None:
    """Make a run of a classifier that was trained elsewhere: a torch checkpoint, or an ONNX file as it is.

    Args:
        file: A file that torch wrote, where one that needs more than tensors is refused; or model.onnx.
        run: The run directory to make.
        dataset: Its images: a name, or a table such as '{ name = "folder", size = 64 }'; folder for an ONNX file.
        model: A checkpoint's architecture: a name, or a table such as '{ name = "resnet18", width = 32 }'.
        normalisation: A checkpoint's: full (centre and divide), centre, or none: as its authors did.
        sigma: The noise that it was trained with.
        size: The pixels of an ONNX model's square images; by default the model's.
        mean: What an ONNX model wants subtracted from each channel, such as 0.5,0.5,0.5; nothing by default.
        std: What an ONNX model wants each channel divided by.
    """
    if file.suffix == ".onnx":
        _import_onnx(file, run, dataset, model, sigma, size, mean, std, data)
    elif dataset is None or model is None:
        raise ValueError(
            f"a checkpoint such as {file} needs --dataset and --model: what it was trained on, and what is in it"
        )
    elif (size, mean, std) != (None, None, None):
        raise ValueError("--size, --mean and --std belong to an ONNX file: a checkpoint has those of --dataset")
    else:
        _import_checkpoint(file, run, dataset, model, normalisation, sigma, data)
    console.print(f"{run}: imported for sigma {sigma:g}; next: radii certify {run}", soft_wrap=True, markup=False)


def _import_checkpoint(
    file: Path, run: Path, dataset: str, model: str, normalisation: str, sigma: float, data: Path | None
) -> None:
    from radii.loops.import_checkpoint import import_checkpoint

    wanted = recipes.Recipe(
        dataset=recipes.parse_value(dataset),
        model=recipes.parse_value(model),
        sigma=sigma,
        normalisation=normalisation,
        objective="imported",
    )
    import_checkpoint(file, wanted, run, data=data)


def _import_onnx(
    file: Path,
    run: Path,
    dataset: str | None,
    model: str | None,
    sigma: float,
    size: int | None,
    mean: str | None,
    std: str | None,
    data: Path | None,
) -> None:
    from radii.loops.import_onnx import import_onnx

    if model is not None:
        raise ValueError(f"{file} holds its architecture: leave out --model")
    import_onnx(
        file,
        run,
        sigma=sigma,
        dataset=recipes.parse_value(dataset or "folder"),
        size=size,
        mean=parse_numbers("--mean", mean) if mean else (),
        std=parse_numbers("--std", std) if std else (),
        data=data,
    )


@app.command
def soft_labels(
    run: Path,
    /,
    *,
    samples: Whole = 10_000,
    seed: Whole = 0,
    engine: str = "auto",
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Write the shares of a run's votes on noisy copies of every training image: the soft labels of `catrs`.

    Args:
        run: A trained run directory, usually plain Gaussian at sigma 0.25.
        samples: Noisy copies of each image.
        seed: The seed of the noise.
        engine: What runs the forward passes; auto takes the fastest that is installed.
    """
    from radii.loops.soft_labels import soft_labels as write_soft_labels

    voting = Run(run, trust or ())
    with CountingBar(console) as bar:
        path = write_soft_labels(voting, samples=samples, seed=seed, engine=engine, data=data, on_image=bar)
    next_step = f"radii train RECIPE --soft-labels {path} --run RUN"
    console.print(f"{path}: next: {next_step}", soft_wrap=True, markup=False)


@app.command
def certify(
    run: Path,
    /,
    *,
    with_: Annotated[str, Parameter(name="--with")] = "fixed",
    radii: str | None = None,
    every: Whole = 1,
    max: Whole | None = None,
    seed: Whole = 0,
    noise: str = "gaussian",
    engine: str = "auto",
    workers: Whole | None = None,
    linf: Annotated[bool, Parameter(negative="")] = False,
    set: Settings = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Certify test images of a run; the same command continues where it stopped.

    Args:
        run: A trained run directory.
        with_: The name of a certifier, as `radii list` shows it.
        radii: Radii to certify, such as 0,0.25,0.5, for a certifier that takes them.
        every: Certify every Nth test image, starting with the first.
        max: At most this many images, the first ones: biased where the test set is sorted.
        seed: The seed of the noise, chosen before any result is known.
        noise: The noise, as `radii list` shows it: a name, or a table of its name and fields.
        engine: What runs the forward passes; auto takes the fastest that is installed.
        workers: Processes of one thread each; by default one for each core.
        linf: Show the average certified l-infinity radius too.
    """
    from radii import certifiers
    from radii.loops.certify import CertificationConfig, certify_run
    from radii.loops.load import noise_of

    certifier = certifiers.create(with_, **parse_fields(set, radii))
    config = CertificationConfig(
        run=run,
        certifier=certifier,
        noise=noise_of(Run(run, trust or ()).recipe, recipes.parse_value(noise)),
        seed=seed,
        every=every,
        max_images=max,
        engine=engine,
        data=data,
        trust=frozenset(trust or ()),
    )
    with warnings_in_words(), CertificationBar(console) as bar:
        path = certify_run(config, workers=workers, on_image=bar)
    summary = Summary(certificates.read(path))
    line = f"{path}: {in_words(summary)}; next: radii report {run}"
    console.print(plain(line), soft_wrap=True, markup=False, emoji=False)
    if words := bias(summary.certificates, Run(run).class_names()):
        console.print(f"note: {words}", soft_wrap=True, markup=False)
    if linf:
        print_linf(run, summary)


def print_linf(run: Path, summary: Summary) -> None:
    from radii.loops.weights import model_spec
    from radii.smoothing.bounds import linf_radius

    dimensions, known = math.prod(model_spec(Run(run)).shape), summary.known_acr
    radius = "-" if known is None else down(linf_radius(known.value, dimensions), 5)
    bound = "" if known is None or known.exact else "at least "
    console.print(f"average certified l-infinity radius {bound}{radius}: l2 over the square root of {dimensions}")


@app.command
def predict(
    run: Path,
    image: Path,
    /,
    *,
    with_: Annotated[str | None, Parameter(name="--with")] = None,
    engine: str = "auto",
    set: Settings = None,
    trust: Trust = None,
) -> None:
    """Predict the class of an image with the classifier that was certified, or "abstains" when the vote is too close.

    Args:
        run: A trained run directory.
        image: An image file of the model's size.
        with_: prediction (votes) or soft (mean probabilities); by default the kind that was certified.
        engine: What runs the forward passes; auto takes the one that the model was certified with.
    """
    from radii.api import predict as predict_image
    from radii.datasets import read_image
    from radii.loops.deployment import certified_prediction
    from radii.loops.load import load
    from radii.loops.weights import model_spec

    trained = Run(run, trust or ())
    spec = model_spec(trained)
    picture = read_image(image, spec.shape)
    procedure, fields = certified_prediction(trained, with_)
    with warnings_in_words():
        answer = predict_image(load(trained, engine=engine), picture, procedure, **{**fields, **parse_fields(set)})
    console.print("abstains" if answer.prediction < 0 else spec.class_names[answer.prediction], markup=False)


@app.command
def report(*inputs: Annotated[Path, Parameter(json_list=False)], out: Path | None = None, trust: Trust = None) -> None:
    """Write tables and curves of runs or certificate files: Markdown, CSV, LaTeX, SVG, PNG and one HTML page.

    Args:
        inputs: Run directories or certificate files in Cohen's format, from any tool.
        out: The folder to write to; by default RUN/report for one run, ./report otherwise.
    """
    from radii.report import report as write_report

    if not inputs:
        raise ValueError("nothing to report: name runs or certificate files")
    if out is None:
        out = inputs[0] / "report" if len(inputs) == 1 and inputs[0].is_dir() else Path("report")
    with warnings_in_words():
        page = write_report(inputs, out, trust or ())
    console.print(plain(str(page)), soft_wrap=True, markup=False, emoji=False)


@app.command(name="list")
def list_() -> None:
    """List the objectives, certifiers, models, denoisers, datasets, engines, noises and recipes."""
    for title, entries in registries().items():
        console.print(f"[bold]{title}[/bold]")
        for name, text in sorted(entries.items()):
            console.print(f"  {name:<18} {text}", soft_wrap=True, markup=False)
    console.print("[bold]recipes[/bold]")
    for shelf in sorted({name.partition("/")[0] for name in recipes.shipped()}):
        named = " ".join(name.partition("/")[2] for name in recipes.shipped() if name.startswith(f"{shelf}/"))
        console.print(f"  {shelf + '/':<18} {named}", soft_wrap=True, markup=False)


def registries() -> dict[str, dict[str, str]]:
    """The entries of every registry with one sentence each."""
    return {
        "objectives": plugins.describe("objectives"),
        "certifiers": plugins.describe("certifiers"),
        "models": {name: text for name, (_, text) in plugins.functions("models").items()},
        "denoisers": {name: text for name, (_, text) in plugins.functions("models/denoisers").items()},
        "datasets": plugins.describe("datasets"),
        "engines": plugins.describe("engines"),
        "noises": plugins.describe("smoothing/noise"),
    }


@app.command
def demo(*, run: Path = Path("runs/demo")) -> None:
    """Train on the embedded digits, certify and write a report, in a few minutes on two cores.

    Args:
        run: The folder for the demonstration's runs and report.
    """
    from radii.cli.demo import run_demo

    run_demo(run, console)


def print_trained(run: Run) -> None:
    rows = run.history()
    accuracy = rows[-1].get("noisy_test_accuracy") if rows else None
    reached = "" if accuracy is None else f", noisy test accuracy {down(float(accuracy), 4)}"
    message = f"{run.path}: trained {len(rows)} epochs{reached}; next: radii certify {run.path}"
    console.print(message, soft_wrap=True, markup=False)

"""Commands that ask a model: certify, predict."""

import math
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import app, console
from radii.cli.arguments import Data, Settings, Trust, Whole, parse_fields
from radii.cli.notices import warnings_in_words
from radii.cli.progress import CertificationBar
from radii.cli.tensorboard import image_writer
from radii.experiment import certificates
from radii.experiment import recipe as recipes
from radii.experiment.run import Run
from radii.report.facts import bias
from radii.report.summary import Summary, down, in_words
from radii.report.text import plain


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
    without_labels: Annotated[bool, Parameter(negative="")] = False,
    tensorboard: Annotated[bool, Parameter(negative="")] = False,
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
        without_labels: Find the class with a pilot, as a deployed model does, and use the label only to judge it.
        tensorboard: Write the running certified accuracy for TensorBoard to RUN/tensorboard too.
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
        label_known=not without_labels,
    )
    shown = getattr(certifier, "radii", None) or (0.0, Run(run, trust or ()).recipe.sigma)
    with (
        warnings_in_words(),
        CertificationBar(console, shown) as bar,
        image_writer(run, bar, wanted=tensorboard) as on_image,
    ):
        path = certify_run(config, workers=workers, on_image=on_image)
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

"""The command that certifies a run."""

import math
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from radii.cli.app import app, console, hint, say
from radii.cli.arguments import Data, Settings, Trust, Whole, command, parse_fields
from radii.cli.notices import warnings_in_words
from radii.cli.progress import CertificationBar
from radii.experiment import certificates
from radii.experiment import recipe as recipes
from radii.experiment.run import Run
from radii.report.facts import bias
from radii.report.summary import Summary, down, in_words


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
    split: Literal["test", "validation"] = "test",
    dataset: str | None = None,
    engine: str = "auto",
    workers: Whole | None = None,
    linf: Annotated[bool, Parameter(negative="")] = False,
    without_labels: Annotated[bool, Parameter(negative="")] = False,
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
        split: test, or validation: the training images that the run's dataset.validation holds out.
        dataset: Another dataset, whose test images are certified instead of the run's own: a name, or a table of its
            name and fields. Then --data is where its files are.
        engine: What runs the forward passes; auto takes the fastest that is installed.
        workers: Processes of one thread each; by default one for each core.
        linf: Show the average certified l-infinity radius too.
        without_labels: Find the class with a pilot, as a deployed model does, and use the label only to judge it.
    """
    from radii import certifiers
    from radii.loops.certify import CertificationConfig, certify_run
    from radii.loops.evaluated import dataset_key
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
        split=split,
        dataset=dataset_key(None if dataset is None else recipes.parse_value(dataset)),
        trust=frozenset(trust or ()),
        label_known=not without_labels,
    )
    with warnings_in_words(), CertificationBar(console) as bar:
        path = certify_run(config, workers=workers, on_image=bar)
    summary = Summary(certificates.read(path))
    say(f"{path}: {in_words(summary)}")
    hint(f"next: {command('report', run)}")
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

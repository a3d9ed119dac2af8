"""The command that certifies a run."""

import inspect
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from radii.cli.app import app, console, hint, printed_warnings, say, say_json
from radii.cli.arguments import Cluster, Data, Json, Settings, Trust, Whole, command, executor_at, parse_fields
from radii.cli.progress import CertificationBar
from radii.cli.tensorboard import image_writer
from radii.reports.card import facts
from radii.reports.facts import bias, duration
from radii.reports.summary import Summary, down, in_words
from radii.runs import certificates
from radii.runs import recipe as recipes
from radii.runs.certificates import Row
from radii.runs.run import Run
from radii.runs.shards import Shard

LONG = 120.0
"""Seconds of certification that are worth a remark."""
FIRST = 1.0
"""Seconds before the first remark: rows of an earlier call are through by then."""


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
    cluster: Cluster = None,
    shard: str | None = None,
    merge: Annotated[bool, Parameter(negative="")] = False,
    linf: Annotated[bool, Parameter(negative="")] = False,
    without_labels: Annotated[bool, Parameter(negative="")] = False,
    tensorboard: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
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
        workers: Processes of one thread each; by default one for each core, or for each GPU.
        shard: Certify one share of the images, such as 3/16, to a part file; for job arrays.
        merge: Make one file of the part files of all shards, which say what it is made with; beside it --data, --trust,
            --linf and --json alone.
        linf: Show the average certified l-infinity radius too.
        without_labels: Find the class with a pilot, as a deployed model does, and use the label only to judge it.
        tensorboard: Write the running certified accuracy for TensorBoard to RUN/tensorboard too.
    """
    if merge:
        _refuse_beside_merge(locals())
        return print_merged(Run(run, trust or ()), data, linf, json)
    share = _share(shard, linf)
    from radii import certifiers
    from radii.certification.certify import CertificationConfig, certify_run
    from radii.certification.evaluated import dataset_key
    from radii.certification.load import noise_of

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
    sigma = Run(run, trust or ()).recipe.sigma
    with (
        printed_warnings(),
        executor_at(cluster, workers) as executor,
        CertificationBar(console, getattr(certifier, "radii", None) or (0.0, sigma)) as bar,
        image_writer(run, Advised(bar, sys.argv[1:], sigma, workers), wanted=tensorboard) as on_image,
    ):
        path = certify_run(config, workers=workers, executor=executor, shard=share, on_image=on_image)
    return print_summary(run, path, linf, json) if share is None else print_part(run, path, share, json)


def _share(shard: str | None, linf: bool) -> Shard | None:
    if shard is not None and linf:
        raise ValueError("--linf is of all images: leave it out here, and give it with --merge")
    return None if shard is None else Shard.parse(shard)


def _refuse_beside_merge(given: Mapping[str, object]) -> None:
    """Refuse options that --merge would ignore: what is certified, and how, the parts say."""
    for name, parameter in inspect.signature(certify).parameters.items():
        if name not in ("run", "merge", "linf", "json", "data", "trust") and given[name] != parameter.default:
            flag = f"--{name.strip('_').replace('_', '-')}"
            raise ValueError(f"{flag} is beside --merge, which takes all from the parts: leave it out")


def print_summary(run: Path, path: Path, linf: bool = False, json: bool = False) -> None:
    summary = Summary(certificates.read(path))
    if json:
        say_json({"file": str(path), **facts(summary.certificates)})
    else:
        _print(run, path, summary, linf)


def _print(run: Path, path: Path, summary: Summary, linf: bool) -> None:
    say(f"{path}: {in_words(summary)}")
    if words := bias(summary.certificates, Run(run).class_names()):
        say(f"note: {words}")
    if linf:
        print_linf(run, summary)
    hint(f"next: {command('report', run)}")


def print_part(run: Path, path: Path, shard: Shard, json: bool) -> None:
    if json:
        return say_json({"file": str(path), "shard": str(shard)})
    say(f"{path}: shard {shard}")
    return hint(f"when all {shard.count} are there: {command('certify', run, merge=True)}")


def print_merged(run: Run, data: Path | None, linf: bool, json: bool) -> None:
    from radii.certification.merging import merge_shards

    with printed_warnings():
        merged = merge_shards(run, data)
    for path in merged:
        print_summary(run.path, path, linf, json)


def print_linf(run: Path, summary: Summary) -> None:
    from radii.smoothing.bounds import linf_radius
    from radii.training.weights import model_spec

    dimensions, known = math.prod(model_spec(Run(run)).shape), summary.known_acr
    radius = "-" if known is None else down(linf_radius(known.value, dimensions), 5)
    bound = "" if known is None or known.exact else "at least "
    say(f"average certified l-infinity radius {bound}{radius}: l2 over the square root of {dimensions}")


class Advised:
    """Passes on what is certified, and says once how long the rest takes and which command takes less."""

    def __init__(
        self, bar: Callable[[int, Row | None], None], typed: Sequence[str], sigma: float, workers: int | None
    ) -> None:
        self.bar, self.typed, self.sigma = bar, typed, sigma
        self.workers = workers or os.cpu_count() or 1
        self.began, self.seen = time.monotonic(), 0
        # Who names a certifier or its fields has chosen, and a machine takes no advice.
        self.silent = any(option in typed for option in ("--with", "--set", "--json"))

    def __call__(self, total: int, row: Row | None) -> None:
        self.bar(total, row)
        if row is None:
            return
        self.seen += 1
        left = (total - self.seen) * row.seconds / self.workers
        if not self.silent and time.monotonic() - self.began > FIRST:
            self.silent = True
            if left > LONG:
                hint(f"about {duration(left)} left; far fewer samples, for given radii: {self._command()}")

    def _command(self) -> str:
        radii = f"0,{self.sigma:g},{2 * self.sigma:g}"
        return shlex.join(["radii", *self.typed, "--with", "sequential", "--radii", radii])

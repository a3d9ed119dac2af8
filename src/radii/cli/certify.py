"""radii certify: certify the test images of a run."""

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
from radii.cli.arguments import (
    Cluster,
    Data,
    Fields,
    Json,
    Switch,
    Trust,
    Whole,
    command,
    executor_at,
    flag_of,
    parse_fields,
)
from radii.cli.progress import CertificationBar
from radii.cli.tensorboard import image_writer
from radii.reports.metrics import Summary, in_words
from radii.reports.model_card import describe
from radii.reports.protocol import bias_warning
from radii.reports.text import down, duration
from radii.runs import certificates
from radii.runs import recipe as recipes
from radii.runs.certificates import Row
from radii.runs.run import Run
from radii.runs.shards import Shard

WITH_MERGE = ("run", "merge", "linf", "json", "data", "trust")
"""The parameters that --merge uses."""
LONG = 120.0
"""Suggest a faster certifier if more seconds than these are left."""
FIRST = 1.0
"""Seconds before the time left is estimated: rows of an earlier command arrive at once."""


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
    merge: Switch = False,
    linf: Switch = False,
    without_labels: Switch = False,
    tensorboard: Switch = False,
    json: Json = False,
    set: Fields = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Certify test images of a run. The same command continues where it stopped.

    Args:
        run: A trained run directory.
        with_: The certifier's name (see `radii list certifiers`).
        radii: The radii to certify, such as 0,0.25,0.5, for a certifier that takes radii.
        every: Certify every Nth test image, starting with the first.
        max: Certify at most this many images, the first ones. The result is biased if the test set is sorted.
        seed: The seed of the noise. Choose it before you know any result.
        noise: The noise: a name (see `radii list noises`), or a table of name and fields.
        split: test, or validation: the training images held out by the recipe's dataset.validation.
        dataset: Certify the test images of another dataset: a name, or a table of name and fields. Then --data is
            where its files are.
        engine: The engine that runs the forward passes; auto takes the fastest that is installed.
        workers: The number of processes, of one thread each; by default one per core or per GPU.
        shard: Certify one share of the images, such as 3/16, to a part file. Use it for job arrays.
        merge: Merge the part files of all shards into one file. The part files state how they were made, so only
            --data, --trust, --linf and --json can be added.
        linf: Also show the average certified l-infinity radius.
        without_labels: Find the class with a pilot, as a deployed model does, and use the label only to judge it.
        tensorboard: Also write the certified accuracy so far for TensorBoard, to RUN/tensorboard.
    """
    if merge:
        _check_merge(locals())
        return _print_merged(Run(run, trust or ()), data, linf, json)
    if shard is not None and linf:
        raise ValueError("--linf needs all images, not one shard. Give it with --merge instead.")
    part = None if shard is None else Shard.parse(shard)
    from radii import certifiers
    from radii.certification.certify import CertificationConfig, certify_run
    from radii.certification.data import dataset_key
    from radii.certification.load import noise_of

    certifier = certifiers.create(with_, **parse_fields(set, radii))
    trained = Run(run, trust or ())
    recipe = trained.recipe
    config = CertificationConfig(
        run=run,
        certifier=certifier,
        noise=noise_of(recipe, recipes.parse_value(noise)),
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
    with (
        printed_warnings(),
        executor_at(cluster, workers) as executor,
        CertificationBar(console, getattr(certifier, "radii", None) or (0.0, recipe.sigma)) as bar,
        image_writer(run, Advisor(bar, sys.argv[1:], recipe.sigma, workers), enabled=tensorboard) as on_image,
    ):
        path = certify_run(config, run=trained, workers=workers, executor=executor, shard=part, on_image=on_image)
    return _print_summary(run, path, linf, json) if part is None else _print_part(run, path, part, json)


class Advisor:
    """Passes rows on to a progress bar, and suggests `sequential` once if certifying will take long."""

    def __init__(
        self, bar: Callable[[int, Row | None], None], typed: Sequence[str], sigma: float, workers: int | None
    ) -> None:
        self.bar, self.typed, self.sigma = bar, typed, sigma
        self.workers = workers or os.cpu_count() or 1
        self.start, self.done = time.monotonic(), 0
        # A user who names a certifier or its fields has chosen; --json is for programs.
        self.silent = any(option in typed for option in ("--with", "--set", "--json"))

    def __call__(self, total: int, row: Row | None) -> None:
        self.bar(total, row)
        if row is None:
            return
        self.done += 1
        if not self.silent and time.monotonic() - self.start > FIRST:
            self.silent = True
            left = (total - self.done) * row.seconds / self.workers
            if left > LONG:
                radii = f"0,{self.sigma:g},{2 * self.sigma:g}"
                faster = shlex.join(["radii", *self.typed, "--with", "sequential", "--radii", radii])
                hint(f"about {duration(left)} left; far fewer samples, for given radii: {faster}")


def _check_merge(values: Mapping[str, object]) -> None:
    """Refuse options that --merge would ignore."""
    for name, parameter in inspect.signature(certify).parameters.items():
        if name not in WITH_MERGE and values[name] != parameter.default:
            raise ValueError(f"{flag_of(name)} cannot be combined with --merge. Leave it out.")


def _print_merged(run: Run, data: Path | None, linf: bool, json: bool) -> None:
    from radii.certification.certify import merge_shards

    with printed_warnings():
        merged = merge_shards(run, data)
    for path in merged:
        _print_summary(run.path, path, linf, json)


def _print_part(run: Path, path: Path, shard: Shard, json: bool) -> None:
    if json:
        say_json({"file": str(path), "shard": str(shard)})
    else:
        say(f"{path}: shard {shard}")
        hint(f"when all {shard.count} are there: {command('certify', run, merge=True)}")


def _print_summary(run: Path, path: Path, linf: bool, json: bool) -> None:
    summary = Summary(certificates.read(path))
    if json:
        say_json({"file": str(path), **describe(summary.certificates)})
        return
    say(f"{path}: {in_words(summary)}")
    if note := bias_warning(summary.certificates, Run(run).class_names()):
        say(f"note: {note}")
    if linf:
        print_linf(run, summary)
    hint(f"next: {command('report', run)}")


def print_linf(run: Path, summary: Summary) -> None:
    """Print the average certified l-infinity radius that follows from the radii in their norm."""
    from radii.smoothing.norms import L1, L2, LINF
    from radii.training.weights import model_spec

    dimensions, average, norm = math.prod(model_spec(Run(run)).shape), summary.known_acr, summary.certificates.norm
    if norm is None:
        say("average certified l-infinity radius -: the file does not state the norm of its radii")
        return
    radius = "-" if average is None else down(norm.implied(average.value, LINF, dimensions), 5)
    bound = "" if average is None or average.exact else "at least "
    how = {
        L2: f"l2 over the square root of {dimensions}",
        L1: f"l1 over {dimensions}",
        LINF: "their own norm",
    }
    say(f"average certified l-infinity radius {bound}{radius}: {how[norm]}")

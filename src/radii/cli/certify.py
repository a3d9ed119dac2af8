"""radii certify: certify the test images of a run."""

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from radii.cli.app import console, printed_warnings, say, say_json, suggest, typed
from radii.cli.arguments import (
    OPTIONS,
    BatchSize,
    Cluster,
    Data,
    Engine,
    Fields,
    Json,
    Seed,
    Switch,
    Trust,
    Whole,
    WithinMinutes,
    Workers,
    command,
    executor_at,
    parse_fields,
    refuse_others,
    stated_options,
)
from radii.cli.estimates import announce
from radii.cli.progress import CertificationBar, CountingBar
from radii.cli.trackers import NO_TRACKERS, Trackers, image_writer
from radii.fields import from_mapping
from radii.reports.costs import answer_cost, check_in_words, never_saw_noise
from radii.reports.metrics import Summary, in_words
from radii.reports.model_card import describe
from radii.reports.population import describe as describe_population
from radii.reports.population import in_words as population_in_words
from radii.reports.protocol import bias_warning
from radii.reports.text import down
from radii.runs import certificates, population
from radii.runs import recipe as recipes
from radii.runs.certificates import Row
from radii.runs.population import beside as population_beside
from radii.runs.recipe import Spec
from radii.runs.repeats import beside, repeats_note
from radii.runs.run import Run
from radii.runs.shards import Shard

if TYPE_CHECKING:
    from radii.certification.certify import CertificationConfig
    from radii.certifiers import Certifier
    from radii.smoothing.noise import Noise

WITH_FROM = ("--from", "--engine", "--workers", "--cluster", "--linf", "--json", "--set", "--data", "--trust")
WITH_MERGE = ("--merge", "--linf", "--json", "--data", "--trust")
CHOOSING = ("--every", "--max")
"""Options that choose images, as --minutes does."""
ABOUT_IMAGES = ("--shard", "--linf", "--without-labels", "--tensorboard", "--mlflow", "--wandb", "--minutes")


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Options:
    """What `radii certify` takes beside a run."""

    with_: Annotated[str, Parameter(name="--with")] = "fixed"
    """The certifier's name (see `radii list certifiers`), or one_pass to prove the accuracy of one noisy pass a
    request, for all pictures like the test images (see `radii list populations`)."""
    from_: Annotated[Path | None, Parameter(name="--from")] = None
    """Certify these weights from the certificates of others: a run, or a certificate file in one. Only copies on which
    both disagree are counted. Images, noise and seed are those of the old certificates."""
    radii: str | None = None
    """The radii to certify, such as 0,0.25,0.5, for a certifier that takes radii; by default 0, sigma and 2 sigma. 0 is
    always among them."""
    every: Whole | None = None
    """Certify every Nth test image, starting with the first; by default all."""
    max: Whole | None = None
    """Certify at most this many images, the first ones. The result is biased if the test set is sorted."""
    minutes: WithinMinutes = None
    seed: Seed = 0
    sigma: float | None = None
    """The sigma of the noise; by default the one that the run was trained with."""
    noise: str = "gaussian"
    """The noise: a name (see `radii list noises`), or a table of name and fields."""
    split: Literal["test", "validation"] = "test"
    """test, or validation: the training images held out by the recipe's dataset.validation."""
    dataset: str | None = None
    """Certify the test images of another dataset: a name, or a table of name and fields. Then --data is where its files
    are."""
    engine: Engine = "auto"
    batch_size: BatchSize = None
    workers: Workers = None
    cluster: Cluster = None
    shard: str | None = None
    """Certify one share of the images, such as 3/16, to a part file. Use it for job arrays."""
    merge: Switch = False
    """Merge the part files of all shards into one file. The part files state how they were made, so only --data,
    --trust, --linf and --json can be added."""
    linf: Switch = False
    """Also show the average certified l-infinity radius."""
    without_labels: Switch = False
    """Find the class with a pilot, as a deployed model does, and use the label only to judge it."""
    trackers: Trackers = NO_TRACKERS
    json: Json = False
    set: Fields = None
    data: Data = None
    trust: Trust = None


DEFAULTS = Options()


def certify(run: Path, /, *, options: Options = DEFAULTS) -> None:
    """Certify test images of a run. The same command continues where it stopped.

    Args:
        run: A trained run directory.
    """
    from radii.certifiers import population as populations

    opened = Run(run, options.trust or ())
    if options.merge:
        _merge(opened, options)
    elif options.from_ is not None:
        _certify_from(opened, options.from_, options)
    elif options.with_ in populations.names():
        _certify_population(opened, options)
    else:
        _certify_images(opened, options)


def _merge(run: Run, options: Options) -> None:
    refuse_others(options, WITH_MERGE, "--merge")
    from radii.certification.pictures import merge_shards

    with printed_warnings():
        merged = merge_shards(run, options.data)
    for path in merged:
        _print_summary(run, path, options)


def _certify_from(run: Run, old_certificates: Path, options: Options) -> None:
    refuse_others(options, WITH_FROM, "--from")
    from radii.certification.certify import CertificationConfig
    from radii.certification.recertify import certify_update
    from radii.certification.update import Update, open_old

    update = from_mapping(Update, parse_fields(options.set), "certifier 'update'")
    config = CertificationConfig(run=run.path, certifier=update, engine=options.engine, data=options.data)
    old = open_old(old_certificates, run.trusted)
    with (
        printed_warnings(),
        executor_at(options.cluster, options.workers) as executor,
        CertificationBar(console, (0.0, run.recipe.sigma)) as bar,
    ):
        on_estimate = None if options.json else announce(bar)
        path = certify_update(
            config, old, run=run, workers=options.workers, executor=executor, on_image=bar, on_estimate=on_estimate
        )
    _print_summary(run, path, options)
    if not options.json:
        spent, saved = (sum(row.samples or 0 for row in file.rows) for file in (certificates.read(path), old.file))
        say(f"{spent:,} samples of both models; the old certificates took {saved:,}")


def _certify_population(run: Run, options: Options) -> None:
    """Prove the accuracy of one noisy pass a request, for all pictures like the test images."""
    if stated := [flag for flag in stated_options(options) if flag in ABOUT_IMAGES]:
        raise ValueError(f"{stated[0]} is for certificates of images. Leave it out with --with {options.with_}.")
    from radii.certification.population import certify_run_population
    from radii.certifiers import population as populations

    config = _config(run, options, populations.create)
    with printed_warnings(), executor_at(options.cluster, options.workers) as executor, CountingBar(console) as bar:
        done = 0

        def on_image(total: int, row: Row | None) -> None:
            nonlocal done
            done += row is not None
            bar(done, total)

        path = certify_run_population(
            config,
            run=run,
            workers=options.workers,
            executor=executor,
            on_image=on_image,
            on_estimate=None if options.json else announce(bar, cheaper="--every 10"),
        )
    proof = population.read(path)
    if options.json:
        say_json({"file": str(path), **describe_population(proof, population_beside(path))})
        return
    first, *more = population_in_words(proof)
    say(f"{path}: {first}")
    for sentence in more:
        say(sentence)
    if note := repeats_note(proof.certificates, population_beside(path)):
        say(f"note: {note}")
    suggest(f"next: {command('predict', run.path, 'PICTURE', one_pass=True, trust=options.trust)}")


def _certify_images(run: Run, options: Options) -> None:
    if options.shard is not None and options.linf:
        raise ValueError("--linf needs all images, not one shard. Give it with --merge instead.")
    shard = None if options.shard is None else Shard.parse(options.shard)
    chosen = (options.every, options.max, options.shard, options.cluster)
    if options.minutes is not None and any(choice is not None for choice in chosen):
        raise ValueError("--minutes chooses the images. Leave out --every, --max, --shard and --cluster.")
    from radii import certifiers
    from radii.certification.certify import certify_run

    config = _config(run, options, certifiers.create)
    with (
        printed_warnings(),
        executor_at(options.cluster, options.workers) as executor,
        CertificationBar(console, getattr(config.certifier, "radii", None) or (0.0, run.recipe.sigma)) as bar,
        image_writer(run.path, bar, options.trackers.names()) as on_image,
    ):
        path = certify_run(
            config,
            run=run,
            workers=options.workers,
            executor=executor,
            shard=shard,
            minutes=options.minutes,
            on_image=on_image,
            on_estimate=None if options.json else announce(bar, cheaper=_cheaper(typed(), config)),
            on_work=bar.on_work,
        )
    if shard is None:
        _print_summary(run, path, options)
    elif options.json:
        say_json({"file": str(path), "shard": str(shard)})
    else:
        say(f"{path}: shard {shard}")
        suggest(f"when all {shard.count} are there: {command('certify', run.path, merge=True, trust=options.trust)}")


def _config(run: Run, options: Options, create: "Callable[..., Certifier]") -> "CertificationConfig":
    """Return what to certify, with which noise and with which certifier, which `create` makes."""
    from radii.certification.certify import CertificationConfig
    from radii.certification.data import dataset_key
    from radii.certification.load import noise_of

    fields = parse_fields(options.set, options.radii)
    if options.radii is not None and options.with_ == "fixed":
        raise ValueError(
            f"--radii {options.radii}: fixed bounds the radius itself. Add --with sequential, or leave out --radii."
        )
    noise = noise_of(run.recipe, with_sigma(recipes.parse_value(options.noise), options.sigma))
    return CertificationConfig(
        run=run.path,
        certifier=with_radii(create(options.with_, **fields), "radii" in fields, noise),
        noise=noise,
        seed=options.seed,
        every=1 if options.every is None else options.every,
        max_images=options.max,
        engine=options.engine,
        batch_size=options.batch_size,
        data=options.data,
        split=options.split,
        dataset=dataset_key(None if options.dataset is None else recipes.parse_value(options.dataset)),
        trust=run.trusted,
        label_known=not options.without_labels,
    )


def with_sigma(noise: Spec, sigma: float | None) -> Spec:
    """Return the table of a noise with this sigma; raise a ValueError if it already has one."""
    if sigma is None:
        return noise
    table = recipes.named_table(noise, "noise")
    if "sigma" in table:
        raise ValueError(f"--sigma {sigma:g} and --noise state a sigma each. Leave out one.")
    return {**table, "sigma": sigma}


def with_radii(certifier: "Certifier", stated: bool, noise: "Noise") -> "Certifier":
    """Return a certifier that takes radii with 0 among them; if none were stated, with 0, sigma and 2 sigma."""
    from radii.certification.attack import unit_radius
    from radii.certifiers.sequential import Sequential

    if not isinstance(certifier, Sequential):
        return certifier
    if stated:
        return replace(certifier, radii=(0.0, *certifier.radii))
    reach, unit = certifier.reach(noise), unit_radius(noise)
    return replace(certifier, radii=tuple(multiple * unit for multiple in (0, 1, 2) if multiple * unit <= reach))


def _cheaper(typed: Sequence[str], config: "CertificationConfig") -> str:
    """Return the options, or the whole command, that would certify in minutes instead of hours."""
    words = [word for word in typed if word not in ("-q", "--quiet")]
    flags = [word.partition("=")[0] for word in words]
    if "--shard" in flags:  # a shard's images are chosen for all shards together
        return ""
    if config.certifier.name != "fixed" or "--set" in flags or "--with" in flags:
        chosen = [flag for flag in flags if flag in CHOOSING]
        return f"--minutes 10 in place of {chosen[0]}" if chosen else "--minutes 10"
    values = [n + 1 for n, word in enumerate(words) if word in CHOOSING]
    kept = [word for n, word in enumerate(words) if flags[n] not in CHOOSING and n not in values]
    return shlex.join(["radii", *kept, "--with", "sequential", "--minutes", "10"])


def _print_summary(run: Run, path: Path, options: Options) -> None:
    summary = Summary(certificates.read(path))
    if options.json:
        say_json({"file": str(path), **describe(summary.certificates, beside(path), run)})
        return
    say(f"{path}: {in_words(summary)}")
    _print_cost(run, summary)
    if note := bias_warning(summary.certificates, run.class_names()):
        say(f"note: {note}")
    if note := repeats_note(summary.certificates, beside(path)):
        say(f"note: {note}")
    if options.linf:
        print_linf(run.path, summary)
    sigma = summary.certificates.sigma
    if sigma is not None and never_saw_noise(run, sigma):
        say("never trained with noise: fine-tune it")
        given = {"minutes": 60, "data": options.data, "trust": options.trust}
        suggest(f"next: {command('harden', run.path, sigma=f'{sigma:g}', **given)}")
    else:
        suggest(f"next: {command('report', run.path, trust=options.trust)}")


def _print_cost(run: Run, summary: Summary) -> None:
    """Print what the answers cost: accuracy without noise, noisy copies and time."""
    check, cost = run.check(), answer_cost(summary)
    parts = [check_in_words(check)] if check and not summary.certificates.header.get("evaluated_on") else []
    parts += [f"an answer took {cost}"] if cost else []
    if parts:
        say(f"  the network alone: {'; '.join(parts)}" if check else f"  {parts[0]}")


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
    sources = {
        L2: f"l2 over the square root of {dimensions}",
        L1: f"l1 over {dimensions}",
        LINF: "their own norm",
    }
    say(f"average certified l-infinity radius {bound}{radius}: {sources[norm]}")

"""radii certify: certify the test images of a run."""

import inspect
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from radii.cli.app import console, printed_warnings, say, say_json, suggest, typed
from radii.cli.arguments import (
    Cluster,
    Data,
    Fields,
    Json,
    Switch,
    Trust,
    Whole,
    WithinMinutes,
    command,
    executor_at,
    flag_of,
    parse_fields,
)
from radii.cli.estimates import announce
from radii.cli.progress import CertificationBar, CountingBar
from radii.cli.trackers import chosen, image_writer
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
    from radii.certification.update import OldCertificates
    from radii.certifiers import Certifier
    from radii.smoothing.noise import Noise

WITH_FROM = ("run", "from_", "engine", "workers", "cluster", "linf", "json", "set", "data", "trust")
"""The parameters that --from uses."""
WITH_MERGE = ("run", "merge", "linf", "json", "data", "trust")
"""The parameters that --merge uses."""
NOT_OF_POPULATIONS = ("shard", "linf", "without_labels", "tensorboard", "mlflow", "wandb", "minutes")
"""The parameters that are about certificates of images."""


def certify(
    run: Path,
    /,
    *,
    with_: Annotated[str, Parameter(name="--with")] = "fixed",
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    radii: str | None = None,
    every: Whole | None = None,
    max: Whole | None = None,
    minutes: WithinMinutes = None,
    seed: Whole = 0,
    sigma: float | None = None,
    noise: str = "gaussian",
    split: Literal["test", "validation"] = "test",
    dataset: str | None = None,
    engine: str = "auto",
    batch_size: Whole | None = None,
    workers: Whole | None = None,
    cluster: Cluster = None,
    shard: str | None = None,
    merge: Switch = False,
    linf: Switch = False,
    without_labels: Switch = False,
    tensorboard: Switch = False,
    mlflow: Switch = False,
    wandb: Switch = False,
    json: Json = False,
    set: Fields = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Certify test images of a run. The same command continues where it stopped.

    Args:
        run: A trained run directory.
        with_: The certifier's name (see `radii list certifiers`), or one_pass to prove the accuracy of one noisy pass a
            request, for all pictures like the test images (see `radii list populations`).
        from_: Certify these weights from the certificates of others: a run, or a certificate file in one. Only copies
            on which both disagree are counted. Images, noise and seed are those of the old certificates.
        radii: The radii to certify, such as 0,0.25,0.5, for a certifier that takes radii; by default 0, sigma and
            2 sigma. 0 is always among them.
        every: Certify every Nth test image, starting with the first; by default all.
        max: Certify at most this many images, the first ones. The result is biased if the test set is sorted.
        seed: The seed of the noise. Choose it before you know any result.
        sigma: The sigma of the noise; by default the one that the run was trained with.
        noise: The noise: a name (see `radii list noises`), or a table of name and fields.
        split: test, or validation: the training images held out by the recipe's dataset.validation.
        dataset: Certify the test images of another dataset: a name, or a table of name and fields. Then --data is
            where its files are.
        engine: The engine that runs the forward passes; auto takes the fastest that is installed.
        batch_size: The noisy copies of a forward pass, on which the draws do not depend; by default as many as suit the
            device.
        workers: The number of processes, of one thread each; by default one per core or per GPU.
        shard: Certify one share of the images, such as 3/16, to a part file. Use it for job arrays.
        merge: Merge the part files of all shards into one file. The part files state how they were made, so only
            --data, --trust, --linf and --json can be added.
        linf: Also show the average certified l-infinity radius.
        without_labels: Find the class with a pilot, as a deployed model does, and use the label only to judge it.
        tensorboard: Also write the certified accuracy so far for TensorBoard, to RUN/tensorboard.
        mlflow: Also log it to MLflow, where MLFLOW_TRACKING_URI says.
        wandb: Also log it to Weights & Biases, in the project radii or WANDB_PROJECT.
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
    from radii.certification.update import Update, open_old
    from radii.certifiers import population as populations

    if from_ is not None:
        _check_from(locals())
        trained = Run(run, trust or ())
        fields = parse_fields(set)
        update = CertificationConfig(
            run=run, certifier=from_mapping(Update, fields, "certifier 'update'"), engine=engine, data=data
        )
        return _certify_update(update, open_old(from_, trained.trusted), trained, workers, cluster, linf, json)
    is_population = with_ in populations.names()
    if is_population:
        _check_population(locals())
    if minutes is not None and (every is not None or max is not None or part is not None or cluster is not None):
        raise ValueError("--minutes chooses the images. Leave out --every, --max, --shard and --cluster.")
    trained = Run(run, trust or ())
    recipe = trained.recipe
    smoothing = noise_of(recipe, with_sigma(recipes.parse_value(noise), sigma))
    fields = parse_fields(set, radii)
    if radii is not None and with_ == "fixed":
        raise ValueError(
            f"--radii {radii}: fixed bounds the radius itself. Add --with sequential, or leave out --radii."
        )
    certifier = with_radii(
        (populations if is_population else certifiers).create(with_, **fields), "radii" in fields, smoothing
    )
    config = CertificationConfig(
        run=run,
        certifier=certifier,
        noise=smoothing,
        seed=seed,
        every=1 if every is None else every,
        max_images=max,
        engine=engine,
        batch_size=batch_size,
        data=data,
        split=split,
        dataset=dataset_key(None if dataset is None else recipes.parse_value(dataset)),
        trust=frozenset(trust or ()),
        label_known=not without_labels,
    )
    if is_population:
        return _certify_population(config, trained, workers, cluster, json)
    trackers = chosen(tensorboard=tensorboard, mlflow=mlflow, wandb=wandb)
    with (
        printed_warnings(),
        executor_at(cluster, workers) as executor,
        CertificationBar(console, getattr(certifier, "radii", None) or (0.0, recipe.sigma)) as bar,
        image_writer(run, bar, trackers) as on_image,
    ):
        path = certify_run(
            config,
            run=trained,
            workers=workers,
            executor=executor,
            shard=part,
            minutes=minutes,
            on_image=on_image,
            on_estimate=None if json else announce(bar, cheaper=_cheaper(typed(), config)),
            on_work=bar.on_work,
        )
    return _print_summary(trained, path, linf, json) if part is None else _print_part(run, path, part, json)


def _check_from(values: Mapping[str, object]) -> None:
    """Refuse options that --from takes from the old certificates."""
    for name, parameter in inspect.signature(certify).parameters.items():
        if name not in WITH_FROM and values[name] != parameter.default:
            raise ValueError(f"{flag_of(name)} cannot be combined with --from. Leave it out.")


def _certify_update(
    config: "CertificationConfig",
    old: "OldCertificates",
    run: Run,
    workers: int | None,
    cluster: str | None,
    linf: bool,
    json: bool,
) -> None:
    from radii.certification.recertify import certify_update

    with (
        printed_warnings(),
        executor_at(cluster, workers) as executor,
        CertificationBar(console, (0.0, run.recipe.sigma)) as bar,
    ):
        path = certify_update(config, old, run=run, workers=workers, executor=executor, on_image=bar)
    _print_summary(run, path, linf, json)
    if not json:
        new, before = certificates.read(path), old.file
        spent, saved = (sum(row.samples or 0 for row in file.rows) for file in (new, before))
        say(f"{spent:,} samples of both models; the old certificates took {saved:,}")


def _check_population(values: Mapping[str, object]) -> None:
    """Refuse options that are about certificates of images."""
    for name in NOT_OF_POPULATIONS:
        if values[name]:
            raise ValueError(f"{flag_of(name)} is for certificates of images. Leave it out with --with one_pass.")


def _certify_population(
    config: "CertificationConfig", run: Run, workers: int | None, cluster: str | None, json: bool
) -> None:
    from radii.certification.population import certify_run_population

    with printed_warnings(), executor_at(cluster, workers) as executor, CountingBar(console) as bar:
        done = 0

        def on_image(total: int, row: Row | None) -> None:
            nonlocal done
            done += row is not None
            bar(done, total)

        path = certify_run_population(config, run=run, workers=workers, executor=executor, on_image=on_image)
    proof = population.read(path)
    if json:
        say_json({"file": str(path), **describe_population(proof, population_beside(path))})
        return
    first, *more = population_in_words(proof)
    say(f"{path}: {first}")
    for sentence in more:
        say(sentence)
    if note := repeats_note(proof.certificates, population_beside(path)):
        say(f"note: {note}")
    suggest(f"next: {command('predict', run.path, 'PICTURE', one_pass=True)}")


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
    if config.certifier.name != "fixed" or any(word in ("--set", "--with") for word in words):
        return "--minutes 10"
    kept = [word for n, word in enumerate(words) if word != "--every" and words[n - 1] != "--every"]
    return shlex.join(["radii", *kept, "--with", "sequential", "--minutes", "10"])


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
        _print_summary(run, path, linf, json)


def _print_part(run: Path, path: Path, shard: Shard, json: bool) -> None:
    if json:
        say_json({"file": str(path), "shard": str(shard)})
    else:
        say(f"{path}: shard {shard}")
        suggest(f"when all {shard.count} are there: {command('certify', run, merge=True)}")


def _print_summary(run: Run, path: Path, linf: bool, json: bool) -> None:
    summary = Summary(certificates.read(path))
    if json:
        say_json({"file": str(path), **describe(summary.certificates, beside(path), run)})
        return
    say(f"{path}: {in_words(summary)}")
    print_cost(run, summary)
    if note := bias_warning(summary.certificates, run.class_names()):
        say(f"note: {note}")
    if note := repeats_note(summary.certificates, beside(path)):
        say(f"note: {note}")
    if linf:
        print_linf(run.path, summary)
    sigma = summary.certificates.sigma
    if sigma is not None and never_saw_noise(run, sigma):
        say("never trained with noise: fine-tune it")
        suggest(f"next: {command('harden', run.path, sigma=f'{sigma:g}', minutes=60)}")
    else:
        suggest(f"next: {command('report', run.path)}")


def print_cost(run: Run, summary: Summary) -> None:
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

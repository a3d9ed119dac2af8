"""Prove the accuracy under attack of one noisy pass a request, for the population that a sample comes from."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from radii.certification.certify import (
    Certification,
    CertificationConfig,
    RowStore,
    certify_missing,
    counted_workers,
    environment_of,
    for_workers,
    open_certification,
)
from radii.certification.memory import Memory, dataset_certification, display, worker_count
from radii.certifiers.population import OnePass
from radii.datasets import DataError, samples_of
from radii.engines import SmoothedClassifier
from radii.errors import ParameterError
from radii.estimate import OnEstimate
from radii.runs import events
from radii.runs import population as files
from radii.runs.certificates import KIND, POLYNOMIALS, POPULATION, Certificates, OnImage
from radii.runs.population import Polynomials, Population
from radii.runs.run import Run
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Votes
from radii.training.open_dataset import dataset_of
from radii.workers.backends import run_programs
from radii.workers.scheduler import Program


def certify_population(
    classifier: SmoothedClassifier,
    dataset: object,
    *,
    radii: Sequence[float] = (0.25,),
    votes: int = 20,
    failure: float = 0.05,
    guess: Sequence[float] = (),
    seed: int,
    every: int = 1,
    max_images: int | None = None,
    out: Path | str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool | OnImage | None = None,
) -> Population:
    """Prove how many pictures like these one noisy pass a request answers rightly, under any change of a length.

    The images have to be a random sample of the pictures that the claim is about, and were not used to train or to
    choose the model. `votes` noisy copies of each are counted. `proven` of the result has the accuracy for every
    radius; all of them together are wrong with probability at most `failure`. Nothing is proven about one picture, nor
    for somebody who may ask until an answer is wrong. `guess` are probabilities that labels may have: a bad guess
    proves less, never too much. The other parameters are those of `certify_dataset`.

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> weights = {"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.tensor([-2.0, 2.0])}
    >>> _ = model[1].load_state_dict(weights)
    >>> images = torch.stack([torch.zeros(1, 2, 2), torch.ones(1, 2, 2)] * 100)
    >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2)
    >>> labels = torch.tensor([1, 0] * 100)
    >>> proven = radii.certify_population(smoothed, (images, labels), radii=(0.25, 0.5), seed=0, workers=1).proven
    >>> proven[0.25] > 0.9
    True
    """
    path = None if out is None else Path(out)
    certifier = OnePass(failure=failure, radii=tuple(radii), votes=votes, guess=tuple(guess))
    certification = of_population(
        dataset_certification(classifier, dataset, certifier, seed=seed, every=every, max_images=max_images, out=path)
    )
    count = worker_count(certification, workers, executor)
    chosen, polynomials = certification.chosen, partial(_polynomials, certification)
    with ExitStack() as held:
        store: RowStore = Memory()
        header = certification.header
        if path is not None:
            environment = environment_of(certification.classifier)
            file = held.enter_context(files.open_named(path, certification.request(chosen), polynomials, environment))
            store, header = file, file.header
        else:
            header = {**header, POLYNOMIALS: polynomials()}
        on_image, on_work = held.enter_context(display(progress))
        certify_missing(replace(certification, on_work=on_work), store, chosen, count, executor, on_image)
        return Population(Certificates(path.stem if path else "population", store.rows(), header), path)


def certify_run_population(
    config: CertificationConfig,
    *,
    run: Run | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    on_image: OnImage = lambda *_: None,
    on_estimate: OnEstimate | None = None,
) -> Path:
    """Count the votes on the chosen test images of a run; return the file, whose proven accuracy `read` computes.

    The parameters are those of `certify_run`.
    """
    run = run or Run(config.run, config.trust)
    workers = counted_workers(workers, run)
    config, target = for_workers(config, run, workers, executor)
    certification = of_population(replace(open_certification(config, run), target=target))
    chosen, environment = certification.chosen, environment_of(certification.classifier)
    request = certification.request(chosen)
    guess = partial(_training_guess, run, config, certification, workers, executor)
    polynomials = partial(_polynomials, certification, guess)
    with (
        files.open_file(run, request, polynomials, environment) as file,
        events.working(run.path, "certify", file=file.path.name, images=len(chosen)),
    ):
        certify_missing(certification, file, chosen, workers, executor, on_image, on_estimate)
    return file.path


def of_population(certification: Certification) -> Certification:
    """Return the certification of a population, whose header says so; refuse what cannot prove anything about one."""
    noise = certification.classifier.noise
    noise.probability_after(1.0, 0.0)  # raises for a noise whose single passes prove nothing
    if not isinstance(certification.certifier, OnePass):
        raise ParameterError(
            f"the certifier {certification.certifier.name!r} is about single images: use certify_dataset", "certifier"
        )
    if certification.max_images is not None:
        _check_sample(certification)
    return replace(certification, facts={**certification.facts, KIND: POPULATION})


def _check_sample(certification: Certification) -> None:
    """Refuse the first images of a sorted dataset: they are no random sample."""
    labels = [certification.samples.sample(index)[1] for index in certification.chosen]
    classes = certification.classifier.classes
    if len(labels) >= classes and 2 * len(set(labels)) < classes:
        raise DataError(
            f"the first {len(labels)} images are of {len(set(labels))} of {classes} classes, so they are no random "
            "sample: take every Nth image instead",
            "dataset",
        )


def _polynomials(certification: Certification, guess: Callable[[], Sequence[float]] = tuple) -> Polynomials:
    certifier: Any = certification.certifier
    noise, images = certification.classifier.noise, len(certification.chosen)
    polynomials: Polynomials = certifier.polynomials(noise, images, guess())
    return polynomials


def _training_guess(
    run: Run, config: CertificationConfig, certification: Certification, workers: int, executor: Executor | None
) -> list[float]:
    """Return the shares of votes for the label on evenly spaced training pictures, or on those held out of them."""
    certifier: Any = certification.certifier
    if not (count := certifier.training_images):
        return []
    own = dataset_of(run, None if config.dataset else config.data)
    part = own.part("train" if own.validation is None else "validation")
    samples = samples_of(part)
    chosen = range(0, len(samples), max(1, len(samples) // count))[:count]

    def share(label: int) -> Generator[Votes, Any, float]:
        votes = yield Votes(0, 0, certifier.votes)
        return float(votes[label] / certifier.votes)

    def begin(position: int) -> Program[float]:
        image, label = samples.sample(chosen[position])
        return Program(image, NoiseAddress(certification.seed, chosen[position], purpose="calibrate"), share(label))

    # Short questions: workers of this machine take longer to start than this process to count.
    here = executor is None and not certification.votes_elsewhere
    finished = run_programs(
        certification.classifier, begin, len(chosen), 1 if here else workers, executor, certification.target
    )
    return [share for share, _, _ in finished]

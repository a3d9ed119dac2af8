"""Certify images: one `Certification` for the test images of a run and for classifiers and images in memory."""

import json
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, get_args

import torch

from radii.certification.data import EvaluatedImages, Key, dataset_key, evaluated_images
from radii.certification.load import noise_of, off_the_gpu, open_run, stays_off
from radii.certification.pictures import keep_pictures
from radii.certifiers import Certifier
from radii.certifiers.base import About, Steps
from radii.datasets import DataError, Samples, samples_of
from radii.datasets.base import Part, image_digest
from radii.device import default_workers
from radii.engines import AUTO, SmoothedClassifier, check_image
from radii.errors import ParameterError, warn_of_sigma
from radii.estimate import Estimate, OnEstimate, OnWork
from radii.fields import check_seed
from radii.provenance import artefact_digest, artefact_path, class_digests, code_digests, rounding_environment
from radii.runs import events, resume
from radii.runs.certificates import ENVIRONMENTS, OnImage, Row
from radii.runs.events import EventLog
from radii.runs.function import CODE, DEVICE, LOGITS, MODEL
from radii.runs.resume import Request
from radii.runs.run import Run, RunError
from radii.runs.shards import Shard
from radii.smoothing.addresses import PHILOX, NoiseAddress
from radii.smoothing.noise import Noise
from radii.training.accuracy import record_accuracy
from radii.training.open_dataset import dataset_of
from radii.training.weights import device_for
from radii.workers.backends import forecast_programs, run_programs, started_pool
from radii.workers.forecast import every_within
from radii.workers.pool import ProcessPool
from radii.workers.scheduler import Program
from radii.workers.voter import one_thread

ENOUGH = 4.0
"""A finished file is used again unless `minutes` is more than this many times the time that it took."""


@dataclass(frozen=True, kw_only=True)
class Certification:
    """A classifier, images, a certifier and a seed: everything that determines certificates."""

    classifier: SmoothedClassifier
    samples: Samples
    certifier: Certifier
    seed: int = 0
    every: int = 1
    max_images: int | None = None
    label_known: bool = True
    """Whether a certifier that can use it is given the true label. A deployed model does not have it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else the header records: dataset, split, digests of weights, code and artefact."""
    model: str | None = None
    """The digest of the recipe's model table, for the model of a run."""
    watched: bool = False
    """Whether the model may change during the certification, which is an error."""
    stream: str | None = PHILOX
    """The random streams that the noise is drawn from; None for those of older files."""
    target: torch.device | None = None
    """The device that worker processes count on; by default the classifier's."""
    pool: ProcessPool | None = None
    """Worker processes that have been started already."""
    on_work: OnWork = lambda _: None

    @cached_property
    def header(self) -> dict[str, Any]:
        """Everything that determines the certificates, as their file records it."""
        classifier, certifier = self.classifier, self.certifier
        stated = {
            "procedure": certifier.name,
            "parameters": asdict(certifier),
            "noise": classifier.noise.describe(),
            **self.facts,
            "seed": self.seed,
            "images": len(self.samples),
            "every": self.every,
            "most": self.max_images,
            **self._draws(),
            "engine": classifier.engine,
            **({} if self.label_known else {"label_known": False}),
            **classifier.noise.stated_norm(),
        }
        plain: dict[str, Any] = json.loads(json.dumps(stated))
        return plain

    def _draws(self) -> dict[str, Any]:
        """Return what the draws depend on: the streams, or with the older ones the batch size and the device."""
        classifier = self.classifier
        if self.stream is not None and classifier.noise.stream is not None:
            return {"stream": self.stream}
        return {"batch_size": classifier.batch_size, "device": classifier.device.type}

    @cached_property
    def function(self) -> dict[str, Any]:
        """What a file records of the function: the recipe's model, code of noise and certifier, and some logits."""
        function: dict[str, Any] = {} if self.model is None else {MODEL: self.model}
        if code := class_digests([self.classifier.noise, self.certifier]):
            function[CODE] = code
        image = self.samples.sample(self.chosen[0])[0]
        channels, height, width = image.shape
        with one_thread():
            for probed in (None, image):  # a model may take no random images, or give no finite logits for them
                with suppress(ParameterError):
                    function[LOGITS] = self.classifier.probe_logits((channels, height, width), probed)
                    break
        if self.votes_elsewhere:
            function[DEVICE] = self.classifier.device.type
        return function

    @property
    def voting_device(self) -> torch.device:
        """The device that votes are counted on."""
        return self.target or self.classifier.device

    @property
    def votes_elsewhere(self) -> bool:
        """Whether votes are counted on another device than that of the classifier in this process."""
        return self.voting_device.type != self.classifier.device.type

    @property
    def chosen(self) -> Sequence[int]:
        """The images to certify."""
        return range(0, len(self.samples), self.every)[: self.max_images]

    def image_digest(self, index: int) -> str:
        """Return the digest of an image with its label; empty if there is no such image."""
        return image_digest(*self.samples.sample(index)) if index < len(self.samples) else ""

    def request(self, images: Sequence[int]) -> Request:
        """Return the request for certificates of these images, which opens their file."""
        return Request(self.header, images, self.image_digest, self.function)

    def rows(
        self, indices: Sequence[int], workers: int = 1, executor: Executor | None = None
    ) -> Generator[Row, None, None]:
        """Certify images and yield their rows in order."""
        state = self.classifier.state() if self.watched else None
        finished = run_programs(
            self.classifier,
            lambda position: self.program(indices[position]),
            len(indices),
            workers,
            executor,
            self.target,
            self.pool,
            getattr(self.certifier, self.certifier.fewest_samples()[0]),
            self.on_work,
        )
        with closing(finished):
            for row, seconds, environments in finished:
                if self.watched and self.classifier.state() != state:
                    raise ParameterError(
                        "the model changed since the certification began: start it again", "classifier"
                    )
                yield replace(row, seconds=seconds, environments=tuple(environments))

    def forecast(self, indices: Sequence[int]) -> Estimate | None:
        """Estimate the seconds of one worker for one of these images; None if its certifier cannot be simulated."""
        return forecast_programs(
            self.classifier, lambda position: self.program(indices[position]), len(indices), self.target
        )

    def announce(self, indices: Sequence[int], workers: int, on_estimate: OnEstimate) -> None:
        """Call `on_estimate` with the estimated time of these images, unless only a worker process could time them."""
        if not self.votes_elsewhere and (image := self.forecast(indices)) is not None:
            on_estimate(image.times(len(indices) / workers))

    def program(self, index: int) -> Program[Row]:
        """Return the program of an image: the certifier's questions, which end in its row."""
        image, label = self.samples.sample(index)
        try:
            check_image(image)
        except ValueError as error:
            raise DataError(f"image {index} of the dataset: {error}", "dataset") from error
        classes = self.classifier.classes
        if not 0 <= label < classes:
            raise DataError(
                f"image {index} of the dataset has the label {label}, expected 0 to {classes - 1}", "dataset"
            )
        about = About.voter(self.classifier, self.stream)
        steps = self.certifier.certify(about, label if self.label_known else None)
        address = NoiseAddress(self.seed, index, stream=self.stream)
        return Program(image, address, _row_steps(steps, index, label, image))


def _row_steps(steps: Steps, index: int, label: int, image: Any) -> Generator[Any, Any, Row]:
    """Ask what the certifier asks, and return its certificate as a row."""
    certificate = yield from steps
    counts = {number: count for number, count in enumerate(certificate.counts) if count}
    digest = image_digest(image, label)
    return Row(index, label, certificate.prediction, certificate.radius, 0.0, certificate.samples, counts, digest)


class RowStore(Protocol):
    """A store of rows: a file, or memory."""

    def rows(self) -> Sequence[Row]: ...

    def append(self, row: Row) -> None: ...


def certify_missing(
    certification: Certification,
    store: RowStore,
    chosen: Sequence[int],
    workers: int,
    executor: Executor | None,
    on_image: OnImage,
    on_estimate: OnEstimate | None = None,
) -> None:
    """Certify the chosen images that have no row yet, and append their rows in order."""
    done = {row.index: row for row in store.rows()}
    on_image(len(chosen), None)
    for row in done.values():
        on_image(len(chosen), row)
    missing = [index for index in chosen if index not in done]
    if on_estimate is not None and executor is None:
        certification.announce(missing, workers, on_estimate)
    with closing(certification.rows(missing, workers, executor)) as rows:
        for row in rows:
            store.append(row)
            on_image(len(chosen), row)


@dataclass(frozen=True, kw_only=True)
class CertificationConfig:
    """The options of a certification of a run."""

    run: Path
    certifier: Certifier
    noise: Noise | None = None
    """By default Gaussian noise of the run's sigma."""
    seed: int = 0
    every: int = 1
    max_images: int | None = None
    engine: str = AUTO
    batch_size: int | None = None
    """Noisy copies of a forward pass; by default as many as suit the device."""
    data: Path | None = None
    """The folder of the images; by default the one that the run or RADII_DATA names."""
    split: Part = "test"
    dataset: Key = ()
    """Another dataset whose test images are certified: its name, or a table of its name and fields."""
    trust: frozenset[str] = frozenset()
    """Modules whose code the run may use."""
    label_known: bool = True
    """Whether a certifier that can use it is given the true label. A deployed model does not have it."""
    stream: str | None = PHILOX
    """The random streams of the noise; None for those of older files."""
    device: str | None = None
    """The device of the forward passes; by default the one that RADII_DEVICE names, or a GPU."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset", dataset_key(self.dataset))
        if self.stream not in (None, PHILOX):
            raise ValueError(f"stream = {self.stream!r}, expected {PHILOX!r}: install the radii that made the file")
        if self.split not in get_args(Part):
            raise ValueError(f"split = {self.split!r}, expected one of {', '.join(get_args(Part))}")
        counts = {"every": self.every, "max_images": self.max_images, "batch_size": self.batch_size}
        for name, value in counts.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} = {value}, expected a whole number >= 1")
        check_seed(self.seed)


def open_certification(config: CertificationConfig, run: Run | None = None) -> Certification:
    """Load the classifier and open the images of a run."""
    run = run or Run(config.run, config.trust)
    weights = run.weights_digest()
    about = evaluated_images(run, config.split, config.dataset, config.data)
    noise = config.noise or noise_of(run.recipe)
    warn_of_sigma(getattr(noise, "sigma", 0.0))
    own_data = None if config.dataset else config.data
    with one_thread():
        device = None if config.device is None else torch.device(config.device)
        engine, classifier = open_run(run, config.engine, noise, own_data, config.batch_size, device=device)
    facts = _facts(run, config, engine, noise, about, weights)
    if run.weights_digest() != weights:
        raise RunError(f"the weights of {run.path} changed since the certification began: start it again")
    return Certification(
        classifier=classifier,
        samples=samples_of(about.images),
        certifier=config.certifier,
        seed=config.seed,
        every=config.every,
        max_images=config.max_images,
        label_known=config.label_known,
        facts=facts,
        model=run.recipe.model_digest,
        stream=config.stream,
    )


def _facts(
    run: Run, config: CertificationConfig, engine: str, noise: Noise, about: EvaluatedImages, weights: str
) -> dict[str, Any]:
    recipe = run.recipe
    names = (recipe.model["name"], about.dataset, config.certifier.name, noise.name, engine)
    return {
        "dataset": recipe.dataset["name"],
        "split": "test",
        **about.facts,
        "sigma": recipe.sigma,
        "weights": weights,
        "data": about.images.digest,
        "code": code_digests(names),
        "artefact": artefact_digest(artefact_path(run, engine, weights)),
    }


def certify_run(
    config: CertificationConfig,
    *,
    run: Run | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    shard: Shard | None = None,
    minutes: float | None = None,
    on_image: OnImage = lambda *_: None,
    on_estimate: OnEstimate | None = None,
    on_work: OnWork = lambda _: None,
) -> Path:
    """Certify the chosen test images of a run, or a shard of them; return the certificate file, or the part file.

    `run` is the configuration's run, if the caller has opened it. `on_image` is called with (number of images, row).
    `executor` counts the votes; by default `workers` processes of one thread each do, one per core or per GPU: images
    are independent, while threads of one forward pass wait for each other. `minutes` chooses `every`: a few blocks are
    timed, and the file records it; the same call continues that file. `on_estimate` is called with the estimated time
    before the first image, `on_work` with the work that is done and left, whenever samples were counted.
    """
    run = run or Run(config.run, config.trust)
    workers = counted_workers(workers, run)
    config.certifier.expect_possible(config.noise or noise_of(run.recipe))
    config, target = for_workers(config, run, workers, executor)
    # A forecast times blocks of this process, so then the cores are left to it.
    early = workers > 1 and executor is None and target.type == "cpu" and minutes is None and on_estimate is None
    with started_pool(workers) if early else nullcontext() as pool:
        certification = replace(open_certification(config, run), target=target)
        if minutes is not None:
            certification = _within(minutes, certification, run, workers)
        certification = replace(_as_begun(run, certification, shard), pool=pool, on_work=on_work)
        chosen = certification.chosen if shard is None else shard.of(certification.chosen)
        environment = environment_of(certification.classifier)
        with resume.open_file(run, certification.request(chosen), environment, shard) as file:
            with events.working(run.path, "certify", file=file.path.name, images=len(chosen)) as log:
                certify_missing(certification, file, chosen, workers, executor, _logged(log, on_image), on_estimate)
            if shard is None:
                keep_pictures(file.path, file.rows(), certification.samples)
                if not config.dataset:
                    record_accuracy(run, partial(dataset_of, run, config.data), certification.classifier.device)
        return file.path


def counted_workers(workers: int | None, run: Run) -> int:
    """Return the number of workers that is asked for, or one for each core or GPU; raise a ValueError below 1."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers = {workers}, expected a whole number >= 1")
    return default_workers(device_for(run)) if workers is None else workers


def for_workers(
    config: CertificationConfig, run: Run, workers: int, executor: Executor | None
) -> tuple[CertificationConfig, torch.device]:
    """Return the configuration for this process, and the device that votes are counted on.

    This process stays off the GPUs where others count.
    """
    target = device_for(run)
    if stays_off(target, workers, executor):
        engine, size = off_the_gpu(run, config.engine, config.batch_size, target)
        config = replace(config, device="cpu", engine=engine, batch_size=size)
    return config, target


def _as_begun(run: Run, certification: Certification, shard: Shard | None) -> Certification:
    """Return the certification with the older streams if its file exists with these alone."""
    older = replace(certification, stream=None)
    has_older = resume.certificate_file(run, older.header, shard).is_file()
    has_new = resume.certificate_file(run, certification.header, shard).is_file()
    return older if has_older and not has_new else certification


def stated_batch_size(header: Mapping[str, Any]) -> int | None:
    """Return the rows of the forward passes that the first row was made with, as far as the file states it."""
    environments: list[Mapping[str, Any]] = header.get(ENVIRONMENTS, [])
    stated: int | None = header["batch_size"] if "stream" not in header else None
    return stated if not environments else environments[0].get("batch_size", stated)


def environment_of(classifier: SmoothedClassifier) -> dict[str, Any]:
    """Describe what may change the rounding of a classifier's results here."""
    return rounding_environment(classifier.engine, classifier.device, classifier.batch_size)


def _within(minutes: float, certification: Certification, run: Run, workers: int) -> Certification:
    """Choose `every` so that the work fits into `minutes`, or reuse that of a file which takes about as long."""
    images = len(certification.samples)
    for every, rows in resume.files_alike(run, certification.header):
        unfinished = len(rows) < len(range(0, images, every))
        if unfinished or every == 1 or ENOUGH * sum(row.seconds for row in rows) > 60 * minutes * workers:
            return replace(certification, every=every)
    image = certification.forecast(range(images))
    if image is None:
        raise ParameterError(
            f"the certifier {certification.certifier.name!r} cannot be timed beforehand: state `every`", "minutes"
        )
    return replace(certification, every=every_within(image, images, minutes, workers))


def _logged(log: EventLog, on_image: OnImage) -> OnImage:
    """Also log how many images are done and correct, and their mean radius, every few seconds and at the end."""
    done = correct = 0
    radii = 0.0

    def sink(total: int, row: Row | None) -> None:
        nonlocal done, correct, radii
        if row is not None:
            done += 1
            correct += row.correct
            radii += row.radius * row.correct
            if done == total or log.due():
                log.write("image", done=done, images=total, correct=correct, mean_radius=radii / done)
        on_image(total, row)

    return sink

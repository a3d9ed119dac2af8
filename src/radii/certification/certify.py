"""Certify images: one `Certification` for the test images of a run and for classifiers and images in memory."""

import json
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, get_args

from radii import disk
from radii.certification.data import EvaluatedImages, Key, dataset_key, evaluated_images, named_in
from radii.certification.load import noise_of, open_run
from radii.certifiers import Certifier
from radii.certifiers.base import About, Steps
from radii.datasets import DataError, Samples, samples_of
from radii.datasets.base import Part, image_digest
from radii.device import default_workers
from radii.engines import AUTO, SmoothedClassifier, check_image
from radii.errors import ParameterError, RunWarning
from radii.fields import check_seed
from radii.provenance import artefact_digest, artefact_path, code_digests, rounding_environment
from radii.runs import events, gallery, resume
from radii.runs.certificates import Row
from radii.runs.events import EventLog
from radii.runs.function import LOGITS, MODEL
from radii.runs.resume import Request
from radii.runs.run import Run, RunError
from radii.runs.shards import Shard, merge
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Noise
from radii.training.weights import model_digest
from radii.workers.backends import run_programs
from radii.workers.scheduler import Program
from radii.workers.voter import one_thread

OnImage = Callable[[int, Row | None], None]
"""Called with the number of images and a row; with None before the first."""


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
            "batch_size": classifier.batch_size,
            "engine": classifier.engine,
            "device": classifier.device.type,
            **({} if self.label_known else {"label_known": False}),
            **classifier.noise.stated_norm(),
        }
        plain: dict[str, Any] = json.loads(json.dumps(stated))
        return plain

    @cached_property
    def function(self) -> dict[str, Any]:
        """What a file records to recognise the certified function: the recipe's model, and logits on drawn images."""
        found: dict[str, Any] = {} if self.model is None else {MODEL: self.model}
        channels, height, width = self.samples.sample(self.chosen[0])[0].shape
        try:
            with one_thread():
                found[LOGITS] = self.classifier.probe_logits((channels, height, width))
        except ParameterError:
            pass  # a model that takes no drawn images, or gives no finite logits for them
        return found

    @property
    def chosen(self) -> Sequence[int]:
        """The images to certify."""
        return range(0, len(self.samples), self.every)[: self.max_images]

    def image_digest(self, index: int) -> str:
        """The digest of an image with its label; empty if there is no such image."""
        return image_digest(*self.samples.sample(index)) if index < len(self.samples) else ""

    def request(self, images: Sequence[int]) -> Request:
        """The certificates of these images, for whoever opens their file."""
        return Request(self.header, images, self.image_digest, self.function)

    def rows(
        self, indices: Sequence[int], workers: int = 1, executor: Executor | None = None
    ) -> Generator[Row, None, None]:
        """Certify images and yield their rows in order, whoever counts the votes."""
        state = self.classifier.state() if self.watched else None
        finished = run_programs(
            self.classifier, lambda position: self.program(indices[position]), len(indices), workers, executor
        )
        with closing(finished):
            for row, seconds, environments in finished:
                if self.watched and self.classifier.state() != state:
                    raise ParameterError(
                        "the model changed since the certification began: start it again", "classifier"
                    )
                yield replace(row, seconds=seconds, environments=tuple(environments))

    def program(self, index: int) -> Program[Row]:
        """The questions about an image, which end in its row."""
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
        about = About(self.classifier.noise, classes, self.classifier.batch_size)
        steps = self.certifier.certify(about, label if self.label_known else None)
        return Program(image, NoiseAddress(self.seed, index), _row_steps(steps, index, label, image))


def _row_steps(steps: Steps, index: int, label: int, image: Any) -> Generator[Any, Any, Row]:
    """Ask what the certifier asks, and make a row of its certificate."""
    found = yield from steps
    counts = {number: count for number, count in enumerate(found.counts) if count}
    digest = image_digest(image, label)
    return Row(index, label, found.prediction, found.radius, 0.0, found.samples, counts, digest)


class RowStore(Protocol):
    """Where rows are kept: a file, or memory."""

    def rows(self) -> Sequence[Row]: ...

    def append(self, row: Row) -> None: ...


def certify_missing(
    certification: Certification,
    store: RowStore,
    chosen: Sequence[int],
    workers: int,
    executor: Executor | None,
    on_image: OnImage,
) -> None:
    """Certify the chosen images that have no row yet, and append their rows in order."""
    done = {row.index: row for row in store.rows()}
    on_image(len(chosen), None)
    for row in done.values():
        on_image(len(chosen), row)
    missing = [index for index in chosen if index not in done]
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
    batch_size: int = 128
    data: Path | None = None
    """Where the images are that are certified; by default where the run or RADII_DATA names them."""
    split: Part = "test"
    dataset: Key = ()
    """Another dataset whose test images are certified: its name, or a table of its name and fields."""
    trust: frozenset[str] = frozenset()
    """Modules whose code the run may use."""
    label_known: bool = True
    """Whether a certifier that can use it is given the true label. A deployed model does not have it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset", dataset_key(self.dataset))
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
    own_data = None if config.dataset else config.data
    with one_thread():
        engine, classifier = open_run(run, config.engine, noise, own_data, config.batch_size)
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
        model=model_digest(run.recipe),
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
    on_image: OnImage = lambda *_: None,
) -> Path:
    """Certify the chosen test images of a run, or a shard of them; returns the certificate file, or the shard's part.

    `run` is the configuration's run, if the caller has opened it. `on_image` is called with (number of images, row).
    The votes are counted by `executor`, by default by a pool of `workers` processes of one thread each, one per core,
    or one per GPU: images are independent, while threads of one forward pass wait for each other.
    """
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise ValueError(f"workers = {workers}, expected a whole number >= 1")
    run = run or Run(config.run, config.trust)
    certification = open_certification(config, run)
    chosen = certification.chosen if shard is None else shard.of(certification.chosen)
    environment = rounding_environment(certification.classifier.engine)
    with resume.open_file(run, certification.request(chosen), environment, shard) as file:
        with events.working(run.path, "certify", file=file.path.name, images=len(chosen)) as log:
            certify_missing(certification, file, chosen, workers, executor, _logged(log, on_image))
        if shard is None:
            keep_pictures(file.path, file.rows(), certification.samples)
    return file.path


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


def merge_shards(run: Run, data: Path | None = None) -> list[Path]:
    """Merge the part files of a run into certificate files, as certification without shards leaves them.

    `data` is where the images are. Where they cannot be read, only the pictures for a report are left out.
    """
    return merge(run, partial(_with_pictures, run, data))


def _with_pictures(run: Run, data: Path | None, path: Path, header: Mapping[str, Any], rows: Sequence[Row]) -> None:
    try:
        images = evaluated_images(run, *named_in(run, header), data).images
        if images.digest != header.get("data"):
            raise DataError("the images there are not those that were certified", "data")
        keep_pictures(path, rows, samples_of(images))
    except (ValueError, LookupError, OSError) as error:
        reason = error.args[0] if isinstance(error, LookupError) and error.args else error
        warnings.warn(
            f"{path} has no pictures for a report: {reason}; merge again where the data are", RunWarning, stacklevel=2
        )


def keep_pictures(certificates: Path, made: Sequence[Row], samples: Samples) -> None:
    """Store the images of a certificate file that are worth a look, so that a report needs no dataset.

    The caller holds the lock of the certificate file.
    """
    path, rows = gallery.pictures_file(certificates), gallery.chosen(made)
    wanted = {str(row.index): row.digest for row in rows}
    if path.parent.is_dir():
        disk.sweep(path.parent, [path.name])
    if not wanted or _kept(path) == wanted:
        return
    pictures = {str(row.index): samples.sample(row.index)[0].numpy() for row in rows}
    if {len(pixels) for pixels in pictures.values()} <= gallery.CHANNELS:
        gallery.write(path, pictures, wanted)


def _kept(path: Path) -> dict[str, Any] | None:
    """What a file of pictures holds; None if it is missing or damaged, which is then written again."""
    try:
        return gallery.read(path)[1] if path.is_file() else None
    except ValueError:
        return None

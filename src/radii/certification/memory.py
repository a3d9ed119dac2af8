"""Certification of a classifier and of images that are in memory."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from radii.certification.certify import OnImage, certify_missing
from radii.certifiers import Certifier
from radii.certifiers.base import Voter
from radii.datasets import DataError, Samples
from radii.datasets.base import image_digest
from radii.engines import AUTO, SmoothedClassifier
from radii.errors import ParameterError, RunWarning
from radii.provenance import artefact_digest, class_digests, rounding_environment, structure_digest, weights_digest
from radii.runs import resume
from radii.runs.certificates import Certificates, Row, header_file, make_header, read_header
from radii.runs.resume import Request
from radii.smoothing.classifier import check_image
from radii.workers.portable import Portable
from radii.workers.session import RowStore, Sample, certified_row, one_thread

READ_TWICE = 4
"""Images that are read twice, to find a dataset that changes them at random."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which images are certified, and how."""

    certifier: Certifier
    seed: int
    every: int = 1
    max_images: int | None = None
    label_known: bool = True
    dataset: str = "images"
    """The name of the dataset, for the record."""
    split: str = "given"


@dataclass(frozen=True)
class MemoryConfig:
    """What a worker needs beside the images."""

    certifier: Certifier
    seed: int
    label_known: bool
    portable: Portable

    @property
    def engine(self) -> str:
        return self.portable.classifier.engine

    def open(self) -> "MemorySession":
        return MemorySession(self)


class MemorySession:
    """A classifier in memory; its images come with the tasks."""

    def __init__(self, config: MemoryConfig, samples: Samples | None = None) -> None:
        self.config = config
        self.samples = samples
        self.classifier = config.portable.classifier
        self._state = self.classifier.state()

    def items(self, indices: Sequence[int]) -> Sequence[Sample]:
        assert self.samples is not None, "a worker does not have the images"
        return _Lazy(self.samples, indices, self.classifier.classes)

    def certify(self, sample: Sample, voter: Voter | None = None) -> Row:
        """The certificate of an image; a model that has changed meanwhile is refused."""
        config = self.config
        row = certified_row(voter or self.classifier, config.certifier, config.seed, config.label_known, sample)
        if self.classifier.state() != self._state:
            raise ParameterError("the model changed since the certification began: start it again", "classifier")
        return row


@dataclass(frozen=True)
class _Lazy(Sequence[Sample]):
    """Images that are read when they are asked for."""

    samples: Samples
    indices: Sequence[int]
    classes: int

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: Any) -> Any:
        index = self.indices[position]
        image, label = self.samples.sample(index)
        try:
            check_image(image)
        except ValueError as error:
            raise DataError(f"image {index} of the dataset: {error}", "dataset") from error
        if not 0 <= label < self.classes:
            raise DataError(
                f"image {index} of the dataset has the label {label}, expected 0 to {self.classes - 1}", "dataset"
            )
        return index, image, label


@dataclass
class _Memory:
    """Rows that are kept in memory alone."""

    kept: list[Row] = field(default_factory=list)

    def rows(self) -> list[Row]:
        return self.kept

    def append(self, row: Row) -> None:
        self.kept.append(row)


def certify_samples(
    classifier: SmoothedClassifier,
    samples: Samples,
    choice: Choice,
    *,
    out: Path | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    on_image: OnImage = lambda *_: None,
) -> Certificates:
    """Certify the chosen images; `out` is a certificate file to write, or to continue.

    A classifier that other processes cannot have is certified by threads of this one, with a warning.
    """
    chosen = range(0, len(samples), choice.every)[: choice.max_images]
    if not chosen:
        raise DataError("the dataset has no images", "dataset")
    first = _expect_fixed(samples, chosen)
    classifier = _pinned(classifier, first, out)
    code = class_digests(classifier.base)
    portable = Portable(classifier, code)
    session = MemorySession(MemoryConfig(choice.certifier, choice.seed, choice.label_known, portable), samples)
    header = _header(classifier, samples, choice, code)
    with ExitStack() as held:
        store: RowStore = _Memory()
        if out is not None:
            wanted = Request(header, chosen, lambda index: _digest(samples, index))
            environment = rounding_environment(classifier.engine)
            store = held.enter_context(resume.open_named(out, wanted, environment))
        workers, executor = _spread(portable, workers, executor, held)
        certify_missing(session, store, chosen, workers, executor, on_image)
        return Certificates(out.stem if out else "certificates", store.rows(), header)


def _expect_fixed(samples: Samples, chosen: Sequence[int]) -> Tensor:
    """The first image; a dataset whose images differ from reading to reading is refused."""
    for index in chosen[:READ_TWICE]:
        if _digest(samples, index) != _digest(samples, index):
            raise DataError(
                f"image {index} of the dataset is another one each time it is read: remove its random transforms",
                "dataset",
            )
    return samples.sample(chosen[0])[0]


def _digest(samples: Samples, index: int) -> str:
    return image_digest(*samples.sample(index)) if index < len(samples) else ""


def _pinned(given: SmoothedClassifier, image: Tensor, out: Path | None) -> SmoothedClassifier:
    """The classifier with its engine chosen, which a continued file has recorded, and prepared."""
    check_image(image)
    engine = given.engine
    if engine == AUTO and out is not None and header_file(out).is_file():
        engine = str(read_header(header_file(out)).get("engine", engine))
    made = SmoothedClassifier(
        given.base,
        noise=given.noise,
        classes=given.classes,
        batch_size=given.batch_size,
        engine=engine,
        names=given.names,
        artefact=given.artefact,
    )
    with one_thread():
        source = given if engine == given.engine else made
        made.adopt(*(found := source.prepared_for(image))[:1], image, found[1])
    return made


def _header(
    classifier: SmoothedClassifier, samples: Samples, choice: Choice, code: dict[str, str | None]
) -> dict[str, Any]:
    base, certifier, noise = classifier.base, choice.certifier, classifier.noise
    return make_header(
        certifier=certifier.name,
        parameters=asdict(certifier),
        noise=noise.describe(),
        dataset=choice.dataset,
        split=choice.split,
        weights=weights_digest(base),
        structure=structure_digest(base),
        code=code,
        artefact=artefact_digest(classifier.artefact),
        seed=choice.seed,
        images=len(samples),
        every=choice.every,
        most=choice.max_images,
        batch_size=classifier.batch_size,
        engine=classifier.engine,
        device=classifier.device.type,
        **_known(sigma=getattr(noise, "sigma", None), data=samples.digest),
        **({} if choice.label_known else {"label_known": False}),
    )


def _known(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _spread(
    portable: Portable, workers: int | None, executor: Executor | None, held: ExitStack
) -> tuple[int, Executor | None]:
    """On how many worker processes, or on which executor, the images are certified."""
    obstacle = portable.obstacle if executor is None or isinstance(executor, ProcessPoolExecutor) else ""
    if executor is not None:
        if portable.content is None and obstacle:
            raise ParameterError(f"{obstacle}, which this executor needs: use threads", "executor")
        return workers or os.cpu_count() or 1, executor
    asked, on_cpu = workers is not None, portable.classifier.device.type == "cpu"
    workers = workers if workers is not None else (os.cpu_count() or 1 if on_cpu else 1)
    if workers == 1 or not obstacle or (asked and portable.content is not None):
        return workers, None
    warnings.warn(
        f"{obstacle}: certified by threads of this process; define it in a module to use processes",
        RunWarning,
        stacklevel=4,
    )
    return workers, held.enter_context(ThreadPoolExecutor(workers))

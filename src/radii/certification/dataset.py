"""Certify the images of a dataset with any classifier."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from torch import Tensor

from radii import certifiers, datasets
from radii.certification.certify import Certification, OnImage, RowStore, certify_missing
from radii.certification.predict import checked_seed, whole
from radii.datasets import DataError, Dataset, Samples, samples_of
from radii.datasets.base import image_digest
from radii.engines import AUTO, SmoothedClassifier, check_image
from radii.provenance import (
    artefact_digest,
    class_digests,
    rounding_environment,
    structure_digest,
    weights_digest,
)
from radii.reports.results import Results
from radii.reports.text import duration
from radii.runs import resume
from radii.runs.certificates import Certificates, Row, header_file, read_header
from radii.runs.recipe import fields_of, named_table
from radii.workers.voter import one_thread

READ_TWICE = 4
"""Images that are read twice, to find a dataset that changes them at random."""
PAUSE = 0.1
"""Seconds between two lines of progress."""


def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: str = "fixed",
    *,
    seed: int,
    every: int = 1,
    max_images: int | None = None,
    out: Path | str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    label_known: bool = True,
    progress: bool | OnImage | None = None,
    **fields: Any,
) -> Results:
    """Certify every `every`th image of a dataset, `max_images` at most; `fields` are the certifier's parameters.

    `dataset` is a torch Dataset, a DataLoader that does not shuffle, a pair (images, labels) of arrays or tensors, or
    the name of a dataset, or a table of its name and fields, whose test images are taken. The noise of an image is
    determined by the seed and its number. State the seed before you know any result.

    `out` names a certificate file, *.tsv: the same call continues it where it stopped, while another model, certifier,
    seed or other images are refused. The images are certified by `executor`, by default by `workers` processes of one
    thread each, one per core; a model that other processes cannot have is certified by threads, with a warning. With
    `label_known=False` a certifier that could test the label directly finds the class itself, as a deployed model does.
    `progress` is shown on a terminal by default; a function is called with (number of images, row).

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> weights = {"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.tensor([-2.0, 2.0])}
    >>> _ = model[1].load_state_dict(weights)
    >>> images, labels = torch.stack([torch.zeros(1, 2, 2), torch.ones(1, 2, 2)]), torch.tensor([1, 0])
    >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2)
    >>> results = radii.certify_dataset(smoothed, (images, labels), "sequential", radii=(0.25, 0.5), seed=0, workers=1)
    >>> results.accuracy(0.5)
    1.0
    """
    if not isinstance(classifier, SmoothedClassifier):
        raise ValueError(
            f"the classifier is a {type(classifier).__name__}, expected a radii.SmoothedClassifier: make one of it"
        )
    samples, facts = _samples(dataset)
    path = None if out is None else Path(out)
    every = whole("every", every, 1)
    max_images = None if max_images is None else whole("max_images", max_images, 1)
    images = range(0, len(samples), every)[:max_images]
    if not images:
        raise DataError("the dataset has no images", "dataset")
    pinned = _pinned(classifier, _first_image(samples, images), path)
    certification = Certification(
        classifier=pinned,
        samples=samples,
        certifier=certifiers.create(procedure, **fields),
        seed=checked_seed(seed),
        every=every,
        max_images=max_images,
        label_known=label_known,
        facts={**facts, **_identity(pinned, samples)},
        watched=True,
    )
    if workers is None:
        count = (os.cpu_count() or 1) if executor is not None or pinned.device.type == "cpu" else 1
    else:
        count = whole("workers", workers, 1)
    with ExitStack() as held:
        store: RowStore = _Memory()
        if path is not None:
            environment = rounding_environment(pinned.engine)
            store = held.enter_context(resume.open_named(path, certification.request(images), environment))
        on_image = held.enter_context(_display(progress))
        certify_missing(certification, store, images, count, executor, on_image)
        return Results(Certificates(path.stem if path else "certificates", store.rows(), certification.header), path)


@dataclass
class _Memory:
    """Rows that are kept in memory alone."""

    kept: list[Row] = field(default_factory=list)

    def rows(self) -> list[Row]:
        return self.kept

    def append(self, row: Row) -> None:
        self.kept.append(row)


def _samples(given: object) -> tuple[Samples, dict[str, str]]:
    """The images, and the names of the dataset and the split for the header."""
    if isinstance(given, str | Mapping):
        table = named_table(given, "dataset")
        given = datasets.create(table["name"], **fields_of(table))
    if isinstance(given, Dataset):
        return samples_of(given.split("test")), {"dataset": given.name, "split": "test"}
    name = "arrays" if isinstance(given, tuple | list) else type(given).__name__
    return samples_of(given), {"dataset": name, "split": "given"}


def _first_image(samples: Samples, chosen: Sequence[int]) -> Tensor:
    """The first image. A dataset whose images change from reading to reading is a DataError."""
    for index in chosen[:READ_TWICE]:
        if image_digest(*samples.sample(index)) != image_digest(*samples.sample(index)):
            raise DataError(
                f"image {index} of the dataset changes between reads: remove random transforms from the dataset",
                "dataset",
            )
    return samples.sample(chosen[0])[0]


def _pinned(given: SmoothedClassifier, image: Tensor, out: Path | None) -> SmoothedClassifier:
    """A copy of the classifier whose engine is chosen and prepared: that of the file, if it is continued."""
    check_image(image)
    engine = given.engine
    if engine == AUTO and out is not None and header_file(out).is_file():
        engine = str(read_header(header_file(out)).get("engine", engine))
    pinned = SmoothedClassifier(
        given.base,
        noise=given.noise,
        classes=given.classes,
        batch_size=given.batch_size,
        engine=engine,
        names=given.names,
        artefact=given.artefact,
    )
    with one_thread():
        name, form = (given if engine == given.engine else pinned).prepared_for(image)
        pinned.adopt(name, image, form)
    return pinned


def _identity(classifier: SmoothedClassifier, samples: Samples) -> dict[str, Any]:
    """The digests of a model in memory and of its images, for the header."""
    base, noise = classifier.base, classifier.noise
    known = {"sigma": getattr(noise, "sigma", None), "data": samples.digest}
    return {
        "weights": weights_digest(base),
        "structure": structure_digest(base),
        "code": class_digests(base),
        "artefact": artefact_digest(classifier.artefact),
        **{name: value for name, value in known.items() if value is not None},
    }


def _display(progress: bool | OnImage | None) -> Any:
    if callable(progress):
        return nullcontext(progress)
    shown = sys.stderr.isatty() if progress is None else progress
    return ProgressLine() if shown else nullcontext(lambda *_: None)


class ProgressLine:
    """Images done, the time left and how many are certified and correct, in a line that is written over."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.images = self.correct = self.begun_with = 0
        self.began = self.written = time.monotonic()
        self.width = 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        if self.width:
            self.stream.write("\n")

    def __call__(self, total: int, row: Row | None) -> None:
        """Count an image; the first call, before any, has none."""
        if row is not None:
            self.images += 1
            self.correct += row.correct
        now = time.monotonic()
        if row is None or self.images == total or now - self.written >= PAUSE:
            self.written = now
            self._write(f"certifying: {self.images} of {total} images, {self.correct} certified and correct", total)

    def _write(self, text: str, total: int) -> None:
        if 0 < self.images < total:
            text += f", {duration((time.monotonic() - self.began) / self.images * (total - self.images))} left"
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)

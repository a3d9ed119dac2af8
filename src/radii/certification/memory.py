"""Certify classifiers and images in memory: fix the engine, keep the rows, and show progress."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from radii import datasets
from radii.certification.certify import Certification
from radii.certification.predict import checked_seed, whole
from radii.certifiers import Certifier
from radii.datasets import DataError, Dataset, Samples, class_names_of, samples_of
from radii.datasets.base import image_digest
from radii.device import VARIABLE, default_device, usable_cores, worker_variables
from radii.engines import AUTO, SmoothedClassifier, check_image, expect_smoothed
from radii.estimate import OnWork, TimeLeft, Work
from radii.onnx_graph import has_graph
from radii.provenance import artefact_digest, class_digests, structure_digest, weights_digest
from radii.reports.text import left_text
from radii.runs.certificates import OnImage, Row, header_file, read_header
from radii.runs.recipe import fields_of, named_table
from radii.smoothing.addresses import PHILOX
from radii.training.open_dataset import check_classes, moved_classes
from radii.workers.voter import one_thread

READ_TWICE = 4
"""Images that are read twice, to find a dataset that changes them at random."""
PAUSE = 0.1
"""Seconds between two lines of progress."""


def dataset_certification(
    classifier: SmoothedClassifier,
    dataset: object,
    certifier: Certifier,
    *,
    seed: int,
    every: int,
    max_images: int | None,
    out: Path | None,
    label_known: bool = True,
) -> Certification:
    """Return the certification of a dataset with a classifier in memory; `out` is the file that it may continue."""
    expect_smoothed(classifier)
    samples, facts = _samples(dataset, classifier.names)
    every = whole("every", every, 1)
    max_images = None if max_images is None else whole("max_images", max_images, 1)
    images = range(0, len(samples), every)[:max_images]
    if not images:
        raise DataError("the dataset has no images", "dataset")
    header = read_header(header_file(out)) if out is not None and header_file(out).is_file() else {}
    stream = PHILOX if not header or "stream" in header else None
    target = voting_device(classifier, stream)
    default = AUTO if target.type == classifier.device.type else "torch"  # which engine is the fastest there is unknown
    pinned = _pinned(classifier, _first_image(samples, images), str(header.get("engine", default)))
    return Certification(
        classifier=pinned,
        samples=samples,
        certifier=certifier,
        seed=checked_seed(seed),
        every=every,
        max_images=max_images,
        label_known=label_known,
        facts={**facts, **_identity(pinned, samples)},
        watched=True,
        stream=stream,
        target=target,
    )


def voting_device(classifier: SmoothedClassifier, stream: str | None) -> torch.device:
    """Return the device that votes are counted on: the model's, or for one on the CPU what RADII_DEVICE names.

    This process then stays off the GPUs. Noise without streams of its own is drawn by the model's device.
    """
    is_anywhere = stream is not None and classifier.noise.stream is not None and not has_graph(classifier.base)
    named = is_anywhere and classifier.device.type == "cpu" and os.environ.get(VARIABLE)
    return default_device() if named else classifier.device


def worker_count(certification: Certification, workers: int | None, executor: Executor | None) -> int:
    """Return the number of workers: those asked for, or one for each core, or for each GPU if votes are counted there.

    A model on another GPU than the first one stays there.
    """
    if workers is not None:
        return whole("workers", workers, 1)
    device = certification.voting_device
    if executor is not None or device.type == "cpu":
        return usable_cores()
    return 1 if device.index else max(1, len(worker_variables()))


@dataclass
class Memory:
    """A store of rows in memory."""

    kept: list[Row] = field(default_factory=list)

    def rows(self) -> list[Row]:
        return self.kept

    def append(self, row: Row) -> None:
        self.kept.append(row)


def _samples(source: object, names: Sequence[str] | None) -> tuple[Samples, dict[str, str]]:
    """Return the images, and the names of the dataset and the split for the header; `names` are the classifier's."""
    if isinstance(source, str | Mapping):
        table = named_table(source, "dataset")
        source = datasets.create(table["name"], **fields_of(table))
    if isinstance(source, Dataset):
        check_classes(names or (), source, "the classifier")
        return samples_of(source.split("test")), {"dataset": source.name, "split": "test"}
    name = "arrays" if isinstance(source, tuple | list) else type(source).__name__
    if moved := moved_classes(names or (), class_names_of(source)):
        raise DataError(
            f"the dataset has the class {moved[0]!r} in another place than the classifier. Order its classes as in "
            "training, or give it a target_transform",
            "dataset",
        )
    return samples_of(source), {"dataset": name, "split": "given"}


def _first_image(samples: Samples, chosen: Sequence[int]) -> Tensor:
    """Return the first image; raise a DataError if images of the dataset change between reads."""
    for index in chosen[:READ_TWICE]:
        if image_digest(*samples.sample(index)) != image_digest(*samples.sample(index)):
            raise DataError(
                f"image {index} of the dataset changes between reads: remove random transforms from the dataset",
                "dataset",
            )
    return samples.sample(chosen[0])[0]


def _pinned(original: SmoothedClassifier, image: Tensor, default: str) -> SmoothedClassifier:
    """Return a copy of the classifier with a chosen and prepared engine: in place of `auto` the default."""
    check_image(image)
    engine = default if original.engine == AUTO else original.engine
    pinned = SmoothedClassifier(
        original.base,
        noise=original.noise,
        classes=original.classes,
        batch_size=original.batch_size,
        engine=engine,
        names=original.names,
        artefact=original.artefact,
    )
    with one_thread():
        name, form = (original if engine == original.engine else pinned).prepared_for(image)
        pinned.adopt(name, image, form)
    return pinned


def _identity(classifier: SmoothedClassifier, samples: Samples) -> dict[str, Any]:
    """Return the digests of a model in memory and of its images, for the header."""
    base, noise = classifier.base, classifier.noise
    known = {"sigma": getattr(noise, "sigma", None), "data": samples.digest}
    return {
        "weights": weights_digest(base),
        "structure": structure_digest(base),
        "code": class_digests(base.modules()),
        "artefact": artefact_digest(classifier.artefact),
        **{name: value for name, value in known.items() if value is not None},
    }


@contextmanager
def display(progress: bool | OnImage | None) -> Iterator[tuple[OnImage, OnWork]]:
    """Yield what is called with every row, and with the work: the caller's function, a line of progress, or nothing."""
    shown = sys.stderr.isatty() if progress is None else progress is True
    if shown:
        with ProgressLine() as line:
            yield line, line.on_work
    else:
        yield progress if callable(progress) else lambda *_: None, lambda _: None


class ProgressLine:
    """Show the images done, the correct ones and the time left, in one line that is overwritten."""

    def __init__(self) -> None:
        self.stream = sys.stderr
        self.images = self.correct = 0
        self.written = time.monotonic()
        self.time_left = TimeLeft()
        self.width = 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        if self.width:
            self.stream.write("\n")

    def __call__(self, total: int, row: Row | None) -> None:
        """Count an image; the first call has no row."""
        if row is not None:
            self.images += 1
            self.correct += row.correct
        now = time.monotonic()
        if row is None or self.images == total or now - self.written >= PAUSE:
            self.written = now
            text = f"certifying: {self.images} of {total} images, {self.correct} certified and correct"
            if self.images < total and (left := self.time_left.range()):
                text += f", {left_text(*left)}"
            self.stream.write("\r" + text.ljust(self.width))
            self.stream.flush()
            self.width = len(text)

    def on_work(self, work: Callable[[], Work]) -> None:
        self.time_left.update(work, time.monotonic())

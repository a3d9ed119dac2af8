"""Soft labels for CAT-RS: count how a run's base classifier votes on noisy copies of every training image."""

import io
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radii import disk
from radii.certification.deployment import function_of
from radii.certification.load import noise_of, off_the_gpu, open_run, stays_off
from radii.datasets import samples_of
from radii.device import default_workers
from radii.disk import locked
from radii.engines import AUTO, SmoothedClassifier
from radii.estimate import OnEstimate
from radii.fields import check_seed, first_difference
from radii.provenance import rounding_environment
from radii.runs import readers
from radii.runs.certificates import ENVIRONMENTS, FIRST_ROW, described, identity, recorded_difference
from radii.runs.function import FUNCTION
from radii.runs.run import Run, RunError
from radii.smoothing.addresses import PHILOX, NoiseAddress
from radii.smoothing.questions import Question, Votes
from radii.training.open_dataset import dataset_of
from radii.training.weights import device_for
from radii.workers.backends import forecast_programs, run_programs
from radii.workers.scheduler import Program
from radii.workers.voter import one_thread

BLOCK = 128
"""`settle` is a multiple of this; the older streams also draw noise in blocks of this size."""
COUNTS = "soft-labels.counts"
"""The file of a run with the votes so far."""
DEVICES = "devices"
"""The field of its header that lists every device that has counted votes; version 0.2 recorded none."""


def soft_labels(
    run: Run,
    *,
    samples: int = 10_000,
    settle: int | None = None,
    seed: int = 0,
    engine: str = AUTO,
    batch_size: int | None = None,
    data: Path | None = None,
    workers: int | None = 1,
    executor: Executor | None = None,
    on_image: Callable[[int, int], None] = lambda *_: None,
    on_estimate: OnEstimate | None = None,
) -> Path:
    """Write each class's share of the votes for every unaugmented training image; continue where it stopped.

    `executor` counts the votes; by default `workers` processes of one thread each do, one per core if it is None. The
    values do not depend on their number. With `settle`, an image whose first `settle` votes are all for one class gets
    no more votes; the other images get all of theirs. `batch_size` copies share a forward pass, by default as many as
    suit the device; the votes do not depend on it. `on_estimate` is called with the estimated time first.
    """
    check_options(samples, settle, seed)
    target = device_for(run)
    workers = default_workers(target) if workers is None else workers
    images = samples_of(dataset_of(run, data).part("train"))
    stream = None if _is_older(run) else PHILOX
    if stream is None:
        batch_size = min(samples, BLOCK)
    moved = stays_off(target, workers, executor)
    name, classifier, weights = _open_classifier(run, engine, batch_size, data, target if moved else None)
    stated = {"samples": samples, "seed": seed, "engine": name, "settle": settle, "stream": stream}
    stated = {key: value for key, value in stated.items() if value is not None}
    with locked(run.soft_labels_file):
        header = {**stated, "weights": weights, "data": images.digest, **_function(run, classifier)}
        counts = _Counts(run, header, classifier.classes)
        first, total = len(counts), len(images)

        def program(number: int) -> Program[NDArray[np.int64]]:
            image, _ = images.sample(first + number)
            address = NoiseAddress(seed, first + number, purpose="soft_labels", stream=stream)
            return Program(image, address, _votes(samples, settle))

        if on_estimate is not None and executor is None and not moved:  # the speed elsewhere is unknown
            image = forecast_programs(classifier, program, total - first)
            if image is not None:
                on_estimate(image.times((total - first) / workers))
        with closing(run_programs(classifier, program, total - first, workers, executor, target)) as finished:
            for number, (votes, seconds, environments) in enumerate(finished, start=first + 1):
                counts.record_devices(environment["device"] for environment in environments)
                counts.append(votes, seconds)
                on_image(number, total)
        counts.publish(total)
    return run.soft_labels_file


def _open_classifier(
    run: Run, engine: str, batch_size: int | None, data: Path | None, workers_on: torch.device | None
) -> tuple[str, SmoothedClassifier, str]:
    """Open a run's classifier, on the CPU if workers count on a GPU; return its engine, it, and its weights' digest."""
    weights, device = run.weights_digest(), None
    if workers_on is not None:
        (engine, batch_size), device = off_the_gpu(run, engine, batch_size, workers_on), torch.device("cpu")
    with one_thread():
        name, classifier = open_run(run, engine, noise_of(run.recipe), data, batch_size, device=device)
    if run.weights_digest() != weights:
        raise RunError(f"the weights of {run.path} changed since the votes began: start them again")
    return name, classifier, weights


def _function(run: Run, classifier: SmoothedClassifier) -> dict[str, Any]:
    """Return what the header records of the function that votes; it is compared when votes are continued."""
    environment = rounding_environment(classifier.engine, classifier.device, classifier.batch_size)
    with one_thread():
        return {FUNCTION: function_of(run, classifier), ENVIRONMENTS: [{**environment, FIRST_ROW: 0}]}


def check_options(samples: int, settle: int | None = None, seed: int = 0) -> None:
    """Raise a ValueError for options that cannot be used."""
    if samples < 1:
        raise ValueError(f"samples = {samples}, expected a whole number >= 1")
    check_seed(seed)
    if settle is not None and (settle < 1 or settle % BLOCK):
        raise ValueError(f"settle = {settle}, expected a multiple of the {BLOCK} votes of a block")


def _votes(samples: int, settle: int | None) -> Generator[Question, NDArray[np.int64], NDArray[np.int64]]:
    """Ask for the votes on one image; stop after `settle` votes if these are all for one class."""
    first = min(settle or samples, samples)
    votes = yield Votes(0, 0, first)
    if first < samples and votes.max() < first:
        votes = votes + (yield Votes(0, first, samples - first))
    return votes


def _is_older(run: Run) -> bool:
    """Return whether a run has votes from the older streams: its header does not name a stream."""
    votes, header = run.path / COUNTS, (run.path / COUNTS).with_suffix(".json")
    begun = votes.is_file() and votes.stat().st_size > 0 and header.is_file()
    return begun and "stream" not in readers.json_object(header)


class _Counts:
    """The votes so far, by image, and their times: two files that grow by whole rows."""

    def __init__(self, run: Run, header: Mapping[str, Any], classes: int) -> None:
        self.run, self.classes = run, classes
        self.file, self.times = run.path / COUNTS, run.soft_labels_times
        header_file = self.file.with_suffix(".json")
        disk.sweep(run.path, [header_file.name, self.file.name, self.times.name, run.soft_labels_file.name])
        if not header_file.is_file() or not len(self):
            disk.remove(self.file)  # before the header that describes it
            disk.remove(self.times)
            disk.write_json(header_file, header)
        self.header = readers.json_object(header_file)
        devices = self.header.get(DEVICES)
        self.devices: list[str] = list(devices) if isinstance(devices, list) else []
        if difference := self._difference(header_file, header):
            raise RunError(
                f"{run.path} has soft labels that were made with {difference}: remove "
                f"{self.file} and {header_file.name} to vote again"
            )
        self._truncate(self.file, 4 * classes, self._rows(self.file, 4 * classes))
        self._truncate(self.times, 8, len(self))

    def _difference(self, file: Path, header: Mapping[str, Any]) -> str:
        """Describe how the votes in the file were made otherwise than this header says; empty if they were not."""
        readers.check_fields(f"{file}: ", self.header, {key: readers.HEADER[key] for key in (FUNCTION, ENVIRONMENTS)})
        present = {key: value for key, value in identity(self.header).items() if key != DEVICES}
        environment = described(header[ENVIRONMENTS][0])
        return first_difference(present, identity(header)) or recorded_difference(
            self.header, header[FUNCTION], environment
        )

    def __len__(self) -> int:
        return self._rows(self.file, 4 * self.classes)

    def record_devices(self, devices: Iterable[str]) -> None:
        """Add devices to the header, each once: Gaussian noise may differ from one to another in its last bits."""
        if new := [device for device in dict.fromkeys(devices) if device not in self.devices]:
            self.devices += new
            disk.write_json(self.file.with_suffix(".json"), {**self.header, DEVICES: self.devices})

    def append(self, votes: NDArray[np.int64], seconds: float) -> None:
        """Append the votes on the next image. The time comes first: `_truncate` removes it if a kill follows."""
        disk.append(self.times, np.array([seconds], "<f8").tobytes())
        disk.append(self.file, votes.astype("<i4").tobytes())

    def publish(self, images: int) -> None:
        """Write the shares of the votes."""
        votes = np.fromfile(self.file, "<i4").reshape(images, self.classes)
        content = io.BytesIO()
        np.save(content, (votes / votes.sum(1, keepdims=True)).astype(np.float32))
        disk.write(self.run.soft_labels_file, content.getvalue())

    @staticmethod
    def _rows(file: Path, size: int) -> int:
        return file.stat().st_size // size if file.is_file() else 0

    def _truncate(self, file: Path, size: int, rows: int) -> None:
        """Truncate a file to whole rows; missing times become NaN."""
        if not file.is_file():
            disk.write(file, b"" if file == self.file else np.full(rows, np.nan, "<f8").tobytes())
        elif self._rows(file, size) < rows:
            disk.write(file, np.full(rows, np.nan, "<f8").tobytes())
        disk.truncate(file, rows * size)

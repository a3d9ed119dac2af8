"""Soft labels: how a trained run's base classifier votes on noisy copies of every training image (CAT-RS)."""

import io
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii import disk
from radii.certification.load import noise_of, open_run
from radii.datasets import samples_of
from radii.device import default_workers
from radii.disk import locked
from radii.engines import AUTO
from radii.fields import check_seed
from radii.runs import readers
from radii.runs.run import Run, RunError
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Question, Votes
from radii.training.build import dataset_of
from radii.workers.backends import run_programs
from radii.workers.scheduler import Program
from radii.workers.voter import one_thread

BLOCK = 128
"""Noisy copies of a forward block, on which the draws depend."""


def soft_labels(
    run: Run,
    *,
    samples: int = 10_000,
    settle: int | None = None,
    seed: int = 0,
    engine: str = AUTO,
    data: Path | None = None,
    workers: int | None = 1,
    executor: Executor | None = None,
    on_image: Callable[[int, int], None] = lambda *_: None,
) -> Path:
    """Write the share of votes of every class for every unaugmented training image; continues where it stopped.

    The images are shared by `executor`, by default by `workers` processes of one thread each, one per core if it is
    None; the values do not depend on how many. With `settle`, the shares of an image whose first votes are all for one
    class are of these alone; those of the others are as without.
    """
    check_options(samples, settle, seed)
    workers = default_workers() if workers is None else workers
    weights = run.weights_digest()
    images = samples_of(dataset_of(run, data).part("train"))
    with one_thread():
        name, classifier = open_run(run, engine, noise_of(run.recipe), data, min(samples, BLOCK))
    if run.weights_digest() != weights:
        raise RunError(f"the weights of {run.path} changed since the votes began: start them again")
    settled = {} if settle is None else {"settle": settle}
    stated = {"samples": samples, "seed": seed, "engine": name, **settled}
    header = {**stated, "weights": weights, "data": images.digest}

    def program(index: int) -> Program[NDArray[np.int64]]:
        image, _ = images.sample(index)
        return Program(image, NoiseAddress(seed, index, purpose="soft_labels"), _votes(samples, settle))

    with locked(run.soft_labels_file):
        counts = _Counts(run, header, classifier.classes)
        first, total = len(counts), len(images)
        finished = run_programs(classifier, lambda number: program(first + number), total - first, workers, executor)
        with closing(finished):
            for number, (votes, seconds, _) in enumerate(finished, start=first + 1):
                counts.append((votes, seconds))
                on_image(number, total)
        counts.publish(total)
    return run.soft_labels_file


def check_options(samples: int, settle: int | None = None, seed: int = 0) -> None:
    """Raise a ValueError for options that cannot be used."""
    if samples < 1:
        raise ValueError(f"samples = {samples}, expected a whole number >= 1")
    check_seed(seed)
    if settle is not None and (settle < 1 or settle % BLOCK):
        raise ValueError(f"settle = {settle}, expected a multiple of the {BLOCK} votes of a block")


def _votes(samples: int, settle: int | None) -> Generator[Question, NDArray[np.int64], NDArray[np.int64]]:
    """Ask for the votes on one image: no more where the first `settle` are all for one class."""
    first = min(settle or samples, samples)
    votes = yield Votes(0, 0, first)
    if first < samples and votes.max() < first:
        votes = votes + (yield Votes(0, first, samples - first))
    return votes


def _other(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """How two headers differ, such as: samples 50, not 60."""
    differing = [key for key in sorted({*theirs, *mine}) if theirs.get(key) != mine.get(key)]
    return "; ".join(f"{key} {_short(theirs.get(key))}, not {_short(mine.get(key))}" for key in differing)


def _short(value: Any) -> str:
    return str(value)[:16]


class _Counts:
    """The votes so far in the order of the images, and their times: two files that grow by whole rows."""

    def __init__(self, run: Run, header: dict[str, object], classes: int) -> None:
        self.run, self.classes = run, classes
        self.file, self.times = run.path / "soft-labels.counts", run.soft_labels_times
        beside = self.file.with_suffix(".json")
        disk.sweep(run.path, [beside.name, self.file.name, self.times.name, run.soft_labels_file.name])
        if not beside.is_file() or not len(self):
            disk.remove(self.file)  # before the header that describes them
            disk.remove(self.times)
            disk.write_json(beside, header)
        if (theirs := readers.json_object(beside)) != header:
            raise RunError(
                f"{run.path} has soft labels of other votes ({_other(theirs, header)}): remove {self.file} and "
                f"{beside.name} to vote again"
            )
        self._cut(self.file, 4 * classes, self._rows(self.file, 4 * classes))
        self._cut(self.times, 8, len(self))

    def __len__(self) -> int:
        return self._rows(self.file, 4 * self.classes)

    def append(self, found: tuple[NDArray[np.int64], float]) -> None:
        """Add the votes on the next image, the time first: a kill in between leaves one time too many, which is cut."""
        votes, seconds = found
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

    def _cut(self, file: Path, size: int, rows: int) -> None:
        """Cut a file to whole rows; times that were never noted, of an older file, are unknown."""
        if not file.is_file():
            disk.write(file, b"" if file == self.file else np.full(rows, np.nan, "<f8").tobytes())
        elif self._rows(file, size) < rows:
            disk.write(file, np.full(rows, np.nan, "<f8").tobytes())
        disk.truncate(file, rows * size)

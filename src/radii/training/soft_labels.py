"""Soft labels: how a trained run's base classifier votes on noisy copies of every training image (CAT-RS)."""

import io
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii import disk
from radii.certification.load import noise_of, open_run
from radii.datasets import Images
from radii.device import default_workers
from radii.disk import locked
from radii.engines import AUTO
from radii.runs import readers
from radii.runs.run import Run, RunError
from radii.smoothing.addresses import NoiseAddress
from radii.training.build import dataset_of
from radii.workers.delivery import in_order
from radii.workers.session import ByIndex, Sample, one_thread
from radii.workers.shipping import AbsentImages, opened, shipped_files

BLOCK = 128
"""Noisy copies of a forward block, on which the draws depend."""
Votes = tuple[NDArray[np.int64], float]
"""The votes for every class on one image, and the seconds that they took."""


@dataclass(frozen=True, kw_only=True)
class VotingConfig:
    """Everything that determines the soft labels of a run."""

    run: Path
    samples: int = 10_000
    settle: int | None = None
    """Votes after which an image that has only votes for one class gets no more; by default every image gets all."""
    seed: int = 0
    engine: str = AUTO
    data: Path | None = None
    trust: frozenset[str] = frozenset()
    identity: tuple[str, str] | None = None
    """The expected digests of weights and images; any are accepted if it is None."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples = {self.samples}, expected a whole number >= 1")
        if not 0 <= self.seed < 1 << 128:
            raise ValueError(f"seed = {str(self.seed)[:40]}, expected a whole number >= 0, of 128 bits at most")
        if self.settle is not None and (self.settle < 1 or self.settle % BLOCK):
            raise ValueError(f"settle = {self.settle}, expected a multiple of the {BLOCK} votes of a block")

    def open(self) -> "VotingSession":
        return VotingSession(self)


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
    config = VotingConfig(
        run=run.path, samples=samples, settle=settle, seed=seed, engine=engine, data=data, trust=run.trusted
    )
    workers = default_workers() if workers is None else workers
    session = VotingSession(config)
    with locked(run.soft_labels_file):
        counts = _Counts(run, session.header, session.classifier.classes)
        missing = range(len(counts), len(session.images))
        with closing(_votes(session, missing, workers, executor)) as votes:
            for index, found in zip(missing, votes, strict=True):
                counts.append(found)
                on_image(index + 1, len(session.images))
        counts.publish(len(session.images))
    return run.soft_labels_file


def _votes(
    session: "VotingSession", indices: range, workers: int, executor: Executor | None
) -> Generator[Votes, None, None]:
    """The votes in the order of the images."""
    if executor is None and (workers == 1 or len(indices) < 2):
        yield from map(session.vote, indices)
    else:
        yield from in_order(session, indices, cast_votes, workers, executor)


def cast_votes(session: "VotingSession", item: int | Sample) -> Votes:
    """The votes on one training image: the same in any process."""
    return session.vote(item)


class VotingSession(ByIndex):
    """A loaded classifier and its training images: what one process needs to vote."""

    def __init__(self, config: VotingConfig, images: Images | None = None) -> None:
        self.run = run = Run(config.run, config.trust)
        self.images = dataset_of(run, config.data).part("train") if images is None else images
        with one_thread():
            first, block = config.identity is None, min(config.samples, BLOCK)
            engine, self.classifier = open_run(run, config.engine, noise_of(run.recipe), config.data, block, first)
        identity = run.weights_digest(), self.images.digest
        if config.identity not in (None, identity):
            raise RunError(f"the weights or images of {run.path} changed since the votes began: start them again")
        # Absolute: a worker may have another working directory.
        data = config.data and config.data.absolute()
        self.config = replace(config, engine=engine, identity=identity, run=run.path.absolute(), data=data)

    @property
    def header(self) -> dict[str, object]:
        """What determines the votes, as it is stored beside them."""
        config, (weights, data) = self.config, self.config.identity or ("", "")
        settled = {} if config.settle is None else {"settle": config.settle}
        stated = {"samples": config.samples, "seed": config.seed, "engine": config.engine, **settled}
        return {**stated, "weights": weights, "data": data}

    def shipment(self) -> "VotingShipment":
        return VotingShipment(self.config, shipped_files(self.run.path))

    def vote(self, item: int | Sample) -> Votes:
        """The votes on one training image."""
        began = time.perf_counter()
        index, image, _ = self.sample(item)
        address = NoiseAddress(self.config.seed, index, purpose="soft_labels")
        samples = self.config.samples
        first = min(self.config.settle or samples, samples)
        with one_thread():
            votes = self.classifier.votes(image, first, address)
            if first < samples and votes.max() < first:
                votes = votes + self.classifier.votes(image, samples - first, address.from_block(first // BLOCK))
        return votes, time.perf_counter() - began


@dataclass(frozen=True)
class VotingShipment:
    """A run for a worker that cannot read it; the images come with the tasks."""

    config: VotingConfig
    files: Mapping[str, bytes]

    def open(self) -> VotingSession:
        return opened(self.files, self._open)

    def _open(self, folder: Path) -> VotingSession:
        assert self.config.identity is not None
        return VotingSession(replace(self.config, run=folder), AbsentImages(self.config.identity[1]))


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

    def append(self, found: Votes) -> None:
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

"""Certification: a pure function of (configuration, index), mapped over the images of a run's test split."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from radii.certifiers import Certifier
from radii.datasets import Images
from radii.engines import AUTO
from radii.experiment import certificates, files
from radii.experiment.certificates import Row
from radii.experiment.run import Run, RunError
from radii.loops.components import dataset_of
from radii.loops.device import default_device
from radii.loops.load import noise_of, open_run
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Noise

OnImage = Callable[[int, Row | None], None]


@dataclass(frozen=True, kw_only=True)
class CertificationConfig:
    """What decides the certificates of a run; who computes them does not."""

    run: Path
    certifier: Certifier
    noise: Noise | None = None
    """Gaussian noise of the run's own sigma by default."""
    seed: int = 0
    every: int = 1
    max_images: int | None = None
    engine: str = AUTO
    batch_size: int = 128
    data: Path | None = None
    trust: frozenset[str] = frozenset()
    """Modules whose code the run may use."""
    weights: str | None = None
    """The digest of the weights that are meant; those that are found where it is not stated."""

    def __post_init__(self) -> None:
        counts = {"every": self.every, "max_images": self.max_images, "batch_size": self.batch_size}
        for name, value in counts.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} = {value}, expected a whole number >= 1")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed}, expected a whole number >= 0")


def certify_run(
    config: CertificationConfig,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    on_image: OnImage = lambda *_: None,
) -> Path:
    """Certify the chosen test images of a run; returns the certificate file. `on_image` sees (images in all, row).

    The images are certified by `executor`, by default a pool of as many `workers` as there are cores, processes of
    one thread each: images are independent, while threads of one forward wait for each other.
    """
    if workers is None:
        workers = os.cpu_count() or 1 if default_device().type == "cpu" else 1
    if workers < 1:
        raise ValueError(f"workers = {workers}, expected a whole number >= 1")
    session = CertificationSession(config)
    chosen = range(0, len(session.images), config.every)[: config.max_images]
    file = certificates.open_file(session.run, session.header)
    done = {row.index: row for row in file.rows()}
    on_image(len(chosen), None)
    for row in done.values():
        on_image(len(chosen), row)
    missing = [index for index in chosen if index not in done]
    for row in _certificates(session, missing, workers, executor):
        file.append(row)
        on_image(len(chosen), row)
    return file.path


def certify_image(config: CertificationConfig, index: int) -> Row:
    """The certificate of one test image: the same in any process. `config` is that of an open session."""
    return _open_once(config).certify(index)


def _certificates(
    session: "CertificationSession", indices: Sequence[int], workers: int, executor: Executor | None
) -> Iterator[Row]:
    """The certificates in the order of the images, whoever makes them."""
    certify = partial(certify_image, session.config)
    if executor is not None:
        yield from executor.map(certify, indices)
    elif workers == 1 or len(indices) < 2:
        yield from map(session.certify, indices)
    else:
        pool = ProcessPoolExecutor(workers, get_context("spawn"))
        try:
            yield from pool.map(certify, indices)
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class CertificationSession:
    """A loaded classifier and its images: what one process needs to certify."""

    def __init__(self, config: CertificationConfig) -> None:
        self.run = Run(config.run, config.trust)
        weights = files.digest(self.run.weights())
        if config.weights not in (None, weights):
            raise RunError(f"the weights of {self.run.path} have changed since the certification began: start it again")
        self.images: Images = dataset_of(self.run, config.data).split("test")
        noise = config.noise or noise_of(self.run.recipe)
        self.header = _header(self.run, config, noise, len(self.images))
        engine = config.engine
        if engine == AUTO:
            engine = certificates.engine_of(self.run, self.header) or AUTO
        first = config.weights is None  # workers open what the process that started them has compared
        with _one_thread():
            engine, self.classifier = open_run(self.run, engine, noise, config.data, config.batch_size, first)
        self.header["engine"] = engine
        self.config = replace(config, engine=engine, noise=noise, weights=weights)

    def certify(self, index: int) -> Row:
        """The certificate of one test image."""
        with _one_thread():
            return self._certify(index)

    def _certify(self, index: int) -> Row:
        began = time.perf_counter()
        image, label = self.images.batch(torch.tensor([index]))[0], int(self.images.labels[index])
        address = NoiseAddress(self.config.seed, index)
        found = self.config.certifier.certify(self.classifier, image, address, label)
        counts = {number: count for number, count in enumerate(found.counts) if count}
        seconds = time.perf_counter() - began
        return Row(index, label, found.prediction, found.radius, seconds, found.samples, counts)


_open_once = lru_cache(maxsize=1)(CertificationSession)
"""A process that certifies many images loads them and the weights, which the configuration pins down, once."""


def _header(run: Run, config: CertificationConfig, noise: Noise, images: int) -> dict[str, Any]:
    return certificates.header(
        run,
        certifier=config.certifier.name,
        parameters=asdict(config.certifier),
        noise=noise.describe(),
        seed=config.seed,
        images=images,
        every=config.every,
        most=config.max_images,
        batch_size=config.batch_size,
        engine=config.engine,
        device=default_device().type,
    )

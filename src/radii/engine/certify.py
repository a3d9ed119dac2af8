"""The certification loop: the images of a run's test split, in one process or several, continued where it stopped."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from radii import datasets
from radii.certifiers import Certifier
from radii.datasets import Images
from radii.engine import build
from radii.experiment.certificates import CertificateFile, Row
from radii.experiment.run import Run, RunError
from radii.smoothing.noise import NoiseAddress


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What decides the certificates of a run; the number of workers does not."""

    run: Path
    procedure: Certifier
    seed: int = 0
    every: int = 1
    most: int | None = None
    """At most this many images."""
    engine: str = "auto"
    batch_size: int = 128
    data: Path | None = None

    def __post_init__(self) -> None:
        for name, value in {"every": self.every, "most": self.most, "batch_size": self.batch_size}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} = {value}, expected a whole number >= 1")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed}, expected a whole number >= 0")


def certify_run(
    plan: Plan, *, workers: int | None = None, watch: Callable[[int, Row | None], None] = lambda *_: None
) -> Path:
    """Certify the chosen test images of a run; returns the certificate file. `watch` sees (images in all, row).

    `workers` are processes of one thread each, by default one a core: images are independent, while threads of one
    forward wait for each other.
    """
    if workers is None:
        workers = os.cpu_count() or 1 if build.device().type == "cpu" else 1
    if workers < 1:
        raise ValueError(f"workers = {workers}, expected a whole number >= 1")
    with _one_thread():
        bench = Bench(plan)
        chosen = range(0, len(bench.images), plan.every)[: plan.most]
        file = _open(bench)
        done = {row.index: row for row in file.rows()}
        watch(len(chosen), None)
        for row in done.values():
            watch(len(chosen), row)
        for row in _rows(bench, [index for index in chosen if index not in done], workers):
            file.append(row)
            watch(len(chosen), row)
    return file.path


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Bench:
    """A loaded classifier and its images: what one process needs to certify."""

    def __init__(self, plan: Plan) -> None:
        self.run = Run(plan.run)
        self.images: Images = datasets.create(self.run.recipe.dataset, plan.data).split("test")
        self.header = _header(self.run, plan, len(self.images))
        if plan.engine == "auto":
            self.header["engine"] = _begun_with(self.run, self.header)
        engine, self.classifier = build.open_run(self.run, self.header["engine"], plan.data, plan.batch_size)
        self.header["engine"] = engine
        self.plan = replace(plan, engine=engine)

    def certify(self, index: int) -> Row:
        began = time.perf_counter()
        image, label = self.images.batch(torch.tensor([index]))[0], int(self.images.labels[index])
        address = NoiseAddress(self.plan.seed, index)
        found = self.plan.procedure.certify(self.classifier, image, address, label)
        counts = {number: count for number, count in enumerate(found.counts) if count}
        seconds = time.perf_counter() - began
        return Row(index, label, found.prediction, found.radius, seconds, found.samples, counts)


def _rows(bench: Bench, indices: Sequence[int], workers: int) -> Iterator[Row]:
    """The certificates in the order of the images, whoever makes them."""
    if workers == 1 or len(indices) < 2:
        yield from map(bench.certify, indices)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker, initargs=(bench.plan,))
    try:
        yield from pool.map(_certify_in_worker, indices)
    finally:
        pool.shutdown(cancel_futures=True)


_bench: Bench


def _start_worker(plan: Plan) -> None:
    global _bench
    torch.set_num_threads(1)
    _bench = Bench(plan)


def _certify_in_worker(index: int) -> Row:
    return _bench.certify(index)


def _header(run: Run, plan: Plan, total: int) -> dict[str, Any]:
    """All that decides the certificates."""
    recipe = run.recipe
    return {
        "procedure": plan.procedure.name,
        "parameters": json.loads(json.dumps(asdict(plan.procedure))),
        "seed": plan.seed,
        "weights": build.digest(run.weights()),
        "dataset": recipe.dataset,
        "split": "test",
        "images": total,
        "every": plan.every,
        "most": plan.most,
        "sigma": recipe.sigma,
        "batch_size": plan.batch_size,
        "engine": plan.engine,
        "device": build.device().type,
    }


def _begun_with(run: Run, header: dict[str, Any]) -> str:
    """The engine that the same certificates were begun with: `auto` must not change its mind halfway."""
    engines = [other["engine"] for _, other in _like(run, header, but="engine")]
    return str(engines[0]) if engines else "auto"


def _open(bench: Bench) -> CertificateFile:
    run, header = bench.run, bench.header
    for path, other in _like(run, header, but="seed"):
        # Seeds tried until an image certifies would void the guarantee.
        if other["seed"] != header["seed"]:
            raise RunError(
                f"{path} holds these under seed {other['seed']}, not {header['seed']}: "
                "a seed is named before looking; continue with that one"
            )
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:8]
    return CertificateFile(run.certificates / f"{header['procedure']}-{digest}.tsv", header)


def _like(run: Run, header: dict[str, Any], but: str) -> list[tuple[Path, dict[str, Any]]]:
    """The certificate files of the run that were made like this one, whatever their value of one field."""
    found = [(path.with_suffix(".tsv"), json.loads(path.read_text())) for path in run.certificates.glob("*.json")]
    return [(path, other) for path, other in sorted(found) if {**other, but: None} == {**header, but: None}]

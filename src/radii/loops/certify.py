"""Certification: a pure function of (configuration, index), mapped over the test images of a run."""

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, get_args

import torch

from radii.certifiers import Certifier
from radii.datasets import Images
from radii.datasets.base import Part
from radii.engines import AUTO
from radii.experiment import files, run_certificates
from radii.experiment.certificates import Row
from radii.experiment.run import Run, RunError
from radii.experiment.run_certificates import Wanted
from radii.loops.device import default_device
from radii.loops.evaluated import Evaluated, Key, dataset_key, evaluated
from radii.loops.identity import artefact_digest, code_digests, environment_of
from radii.loops.load import noise_of, open_run
from radii.loops.pool import map_in_processes
from radii.loops.session import Item, RowStore, Session, SessionConfig, certified_row, one_thread
from radii.smoothing.noise import Noise

Identity = tuple[tuple[str, str], ...]
"""Names and digests of what determines a certificate."""
OnImage = Callable[[int, Row | None], None]


@dataclass(frozen=True, kw_only=True)
class CertificationConfig:
    """Everything that determines the certificates of a run."""

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
    """Whether a certifier that can use it is given the true label; a deployed model does not have it."""
    identity: Identity = ()
    """The expected digests of weights, data, code and artefact; any are accepted if it is empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset", dataset_key(self.dataset))
        if self.split not in get_args(Part):
            raise ValueError(f"split = {self.split!r}, expected one of {', '.join(get_args(Part))}")
        counts = {"every": self.every, "max_images": self.max_images, "batch_size": self.batch_size}
        for name, value in counts.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} = {value}, expected a whole number >= 1")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed}, expected a whole number >= 0")
        if self.seed >= 1 << 128:  # no header with a longer number is read again
            raise ValueError(f"seed = {str(self.seed)[:40]}..., expected a whole number of 128 bits at most")

    def open(self) -> "CertificationSession":
        return CertificationSession(self)


def certify_run(
    config: CertificationConfig,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    on_image: OnImage = lambda *_: None,
) -> Path:
    """Certify the chosen test images of a run; returns the certificate file.

    `on_image` is called with (number of images, row). The images are certified by `executor`, by
    default a pool of `workers` processes of one thread each, one per core: images are independent, while threads of
    one forward pass wait for each other.
    """
    if workers is None:
        workers = os.cpu_count() or 1 if default_device().type == "cpu" else 1
    if workers < 1:
        raise ValueError(f"workers = {workers}, expected a whole number >= 1")
    session = CertificationSession(config)
    chosen = range(0, len(session.images), config.every)[: config.max_images]
    wanted = Wanted(session.header, chosen, session.image_digest)
    with run_certificates.open_file(session.run, wanted, environment_of(session.config.engine)) as file:
        certify_missing(session, file, chosen, workers, executor, on_image)
    return file.path


def certify_missing(
    session: Session[Any],
    file: RowStore,
    chosen: Sequence[int],
    workers: int,
    executor: Executor | None,
    on_image: OnImage,
) -> None:
    """Certify the chosen images that a file has no row of, and append their rows in order."""
    done = {row.index: row for row in file.rows()}
    on_image(len(chosen), None)
    for row in done.values():
        on_image(len(chosen), row)
    missing = [index for index in chosen if index not in done]
    with closing(_certificates(session, missing, workers, executor)) as rows:
        for row in rows:
            file.append(row)
            on_image(len(chosen), row)


def certify_image(config: SessionConfig[Item], item: Item) -> Row:
    """The certificate of one image: the same in any process. `config` is that of an open session."""
    return _open_once(config).certify(item)


def certify_images(session: Session[Any], indices: Sequence[int], workers: int) -> Iterator[Row]:
    """The certificates of these test images in their order, on `workers` processes."""
    return _certificates(session, indices, workers, None)


def _certificates(
    session: Session[Any], indices: Sequence[int], workers: int, executor: Executor | None
) -> Generator[Row, None, None]:
    """The certificates in the order of the images."""
    certify, items = partial(certify_image, session.config), session.items(indices)
    if executor is not None:
        yield from executor.map(certify, items)
    elif workers == 1 or len(indices) < 2:
        yield from map(session.certify, items)
    else:
        yield from map_in_processes(certify, items, workers)


class CertificationSession:
    """A loaded classifier and the images of a run: what one process needs to certify."""

    def __init__(self, config: CertificationConfig) -> None:
        self.run = Run(config.run, config.trust)
        weights = files.digest(self.run.weights())
        _expect_same(self.run, config.identity, _pinned({"weights": weights}))
        about = evaluated(self.run, config.split, config.dataset, config.data)
        self.images: Images = about.images
        noise = config.noise or noise_of(self.run.recipe)
        first = not config.identity  # workers need not repeat the engine's comparison of the process that started them
        with one_thread():
            own = None if config.dataset else config.data
            engine, self.classifier = open_run(self.run, config.engine, noise, own, config.batch_size, first)
        config = replace(config, engine=engine, noise=noise)
        self.header = _header(self.run, config, noise, about)
        found = _pinned({name: self.header[name] for name in PINNED})
        # The classifier was loaded after the digest was computed: the file must not have changed in between.
        _expect_same(self.run, (*config.identity, *_pinned({"weights": weights})), found)
        self.config = replace(config, identity=found)

    def image_digest(self, index: int) -> str:
        """The digest of a test image; empty where there is none of that number."""
        return self.images.image_digest(index) if index < len(self.images) else ""

    def items(self, indices: Sequence[int]) -> Sequence[int]:
        """The indices: a worker reads the images itself."""
        return indices

    def certify(self, index: int) -> Row:
        """The certificate of one test image."""
        image, label = self.images.batch(torch.tensor([index]))[0], int(self.images.labels[index])
        config = self.config
        return certified_row(self.classifier, config.certifier, config.seed, config.label_known, (index, image, label))


@lru_cache(maxsize=1)
def _open_once(config: SessionConfig[Item]) -> Session[Item]:
    """A process that certifies many images loads them and the weights once; the configuration identifies them."""
    return config.open()


PINNED = ("weights", "data", "code", "artefact")
"""The digests of a header that must be the same in every certifying process."""


def _pinned(header: Mapping[str, Any]) -> Identity:
    return tuple((name, json.dumps(value, sort_keys=True)) for name, value in header.items())


def _expect_same(run: Run, meant: Identity, found: Identity) -> None:
    """Refuse digests that changed since the certification began, in this process or the one that started it."""
    for name, value in found:
        if dict(meant).get(name, value) != value:
            raise RunError(f"the {name} of {run.path} changed since the certification began: start it again")


def _header(run: Run, config: CertificationConfig, noise: Noise, about: Evaluated) -> dict[str, Any]:
    recipe, certifier, weights = run.recipe, config.certifier, files.digest(run.weights())
    names = (recipe.model["name"], about.dataset, certifier.name, noise.name, config.engine)
    return run_certificates.header(
        run,
        certifier=certifier.name,
        parameters=asdict(certifier),
        noise=noise.describe(),
        weights=weights,
        data=about.images.digest,
        code=code_digests(names),
        artefact=artefact_digest(run, config.engine, weights),
        seed=config.seed,
        images=len(about.images),
        every=config.every,
        most=config.max_images,
        batch_size=config.batch_size,
        engine=config.engine,
        device=default_device().type,
        **about.facts,
        **({} if config.label_known else {"label_known": False}),
    )

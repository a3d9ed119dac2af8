"""Certification: a pure function of (configuration, index), mapped over the test images of a run."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from radii.certification.evaluated import Evaluated, Key, dataset_key, evaluated
from radii.certification.load import noise_of, open_run
from radii.certification.pictures import keep_pictures
from radii.certifiers import Certifier
from radii.certifiers.base import Voter
from radii.datasets import Images
from radii.datasets.base import Part
from radii.device import default_device, default_workers
from radii.engines import AUTO
from radii.provenance import artefact_digest, artefact_path, code_digests, rounding_environment
from radii.runs import events, resume
from radii.runs.certificates import Row, make_header
from radii.runs.resume import Request
from radii.runs.run import Run, RunError
from radii.runs.shards import Shard
from radii.smoothing.noise import Noise
from radii.workers.session import ByIndex, Item, RowStore, Sample, Session, SessionConfig, certified_row, one_thread
from radii.workers.shipping import AbsentImages, opened, shipped_files
from radii.workers.spread import certificates

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
    shard: Shard | None = None,
    on_image: OnImage = lambda *_: None,
) -> Path:
    """Certify the chosen test images of a run, or a shard of them; returns the certificate file, or the shard's part.

    `on_image` is called with (number of images, row). The images are certified by `executor`, by
    default a pool of `workers` processes of one thread each, one per core, or one per GPU: images are independent,
    while threads of one forward pass wait for each other.
    """
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise ValueError(f"workers = {workers}, expected a whole number >= 1")
    session = CertificationSession(config)
    chosen: Sequence[int] = range(0, len(session.images), config.every)[: config.max_images]
    chosen = chosen if shard is None else shard.of(chosen)
    wanted = Request(session.header, chosen, session.image_digest)
    with resume.open_file(session.run, wanted, rounding_environment(session.config.engine), shard) as file:
        with events.working(session.run.path, "certify", file=file.path.name, images=len(chosen)) as log:
            certify_missing(session, file, chosen, workers, executor, log_images(log, on_image))
        if shard is None:
            keep_pictures(file.path, file.rows(), session.images)
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
    with closing(certificates(session, missing, workers, executor)) as rows:
        for row in rows:
            file.append(row)
            on_image(len(chosen), row)


def log_images(log: events.EventLog, on_image: OnImage) -> OnImage:
    """Wrap `on_image` to log every few seconds, and at the end, how many images are done and correct."""
    done = correct = 0
    radii = 0.0

    def log_image(total: int, row: Row | None) -> None:
        nonlocal done, correct, radii
        if row is not None:
            done += 1
            correct += row.correct
            radii += row.radius * row.correct
            if done == total or log.due():
                log.write("image", done=done, images=total, correct=correct, mean_radius=radii / done)
        on_image(total, row)

    return log_image


def certify_image(config: SessionConfig[Item], item: Item) -> Row:
    """The certificate of one image: the same in any process. `config` is that of an open session."""
    return _open_once(config).certify(item)


def certify_images(session: Session[Any], indices: Sequence[int], workers: int) -> Iterator[Row]:
    """The certificates of these test images in their order, on `workers` processes."""
    return certificates(session, indices, workers, None)


class CertificationSession(ByIndex):
    """A loaded classifier and the images of a run: what one process needs to certify."""

    def __init__(self, config: CertificationConfig, about: Evaluated | None = None) -> None:
        self.run = Run(config.run, config.trust)
        weights = self.run.weights_digest()
        _expect_same(self.run, config.identity, _pinned({"weights": weights}))
        about = about or evaluated(self.run, config.split, config.dataset, config.data)
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
        # Absolute: a worker may have another working directory.
        data = config.data and config.data.absolute()
        self.config = replace(config, identity=found, run=Path(config.run).absolute(), data=data)

    def image_digest(self, index: int) -> str:
        """The digest of a test image; empty where there is none of that number."""
        return self.images.image_digest(index) if index < len(self.images) else ""

    def shipment(self) -> "RunShipment":
        return RunShipment(self.config, shipped_files(self.run.path))

    def certify(self, item: int | Sample, voter: Voter | None = None) -> Row:
        """The certificate of one test image; `voter` votes in place of the classifier."""
        config = self.config
        classifier = voter or self.classifier
        return certified_row(classifier, config.certifier, config.seed, config.label_known, self.sample(item))


@lru_cache(maxsize=1)
def _open_once(config: SessionConfig[Item]) -> Session[Item]:
    """A process that certifies many images loads them and the weights once; the configuration identifies them."""
    return config.open()


@dataclass(frozen=True)
class RunShipment:
    """A run for a worker that cannot read it; the images come with the tasks."""

    config: CertificationConfig
    files: Mapping[str, bytes]

    def open(self) -> CertificationSession:
        return opened(self.files, self._open)

    def _open(self, folder: Path) -> CertificationSession:
        config = replace(self.config, run=folder)
        data: str = json.loads(dict(config.identity)["data"])
        name = dict(config.dataset).get("name") or Run(config.run, config.trust).recipe.dataset["name"]
        return CertificationSession(config, Evaluated(AbsentImages(data), {}, name))


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
    recipe, certifier, weights = run.recipe, config.certifier, run.weights_digest()
    names = (recipe.model["name"], about.dataset, certifier.name, noise.name, config.engine)
    facts: dict[str, Any] = {"dataset": recipe.dataset["name"], "split": "test", **about.facts}
    if not config.label_known:
        facts["label_known"] = False
    return make_header(
        certifier=certifier.name,
        parameters=asdict(certifier),
        noise=noise.describe(),
        sigma=recipe.sigma,
        weights=weights,
        data=about.images.digest,
        code=code_digests(names),
        artefact=artefact_digest(artefact_path(run, config.engine, weights)),
        seed=config.seed,
        images=len(about.images),
        every=config.every,
        most=config.max_images,
        batch_size=config.batch_size,
        engine=config.engine,
        device=default_device().type,
        **facts,
    )

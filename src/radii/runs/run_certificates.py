"""The certificate files of a run: which file may be continued, on which images and with which seed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radii import disk
from radii.disk import is_locked, locked
from radii.runs.certificate_format import Row, identity
from radii.runs.certificates import CertificateFile, header_file, read_header, rows_of
from radii.runs.run import Run, RunError
from radii.runs.shards import SHARD, Shard, part_file


def header(
    *, certifier: str, parameters: Mapping[str, Any], noise: Mapping[str, Any], dataset: str, split: str, **facts: Any
) -> dict[str, Any]:
    """Everything that determines the certificates of a file; `facts` are digests, seed, images, engine and the like."""
    stated = {
        "procedure": certifier,
        "parameters": dict(parameters),
        "noise": dict(noise),
        "dataset": dataset,
        "split": split,
        **facts,
    }
    plain: dict[str, Any] = json.loads(json.dumps(stated))
    return plain


@dataclass(frozen=True)
class Wanted:
    """The certificates to compute."""

    header: Mapping[str, Any]
    images: Sequence[int]
    """The test images to certify."""
    digest_of: Callable[[int], str]
    """The digest of a test image; empty where there is none of that number."""


@contextmanager
def open_file(
    run: Run, wanted: Wanted, environment: Mapping[str, Any] | None = None, shard: Shard | None = None
) -> Iterator[CertificateFile]:
    """The certificate file of a run for this header, or a shard's part of it, new or continued; locked while open.

    A second seed for images that these weights were certified on is refused, whatever else differs, and so is
    continuing on other images than the rows are about.
    """
    digest = hashlib.sha256(json.dumps(wanted.header, sort_keys=True).encode()).hexdigest()[:8]
    name = wanted.header["procedure"].replace(":", "-")
    path = run.certificates / f"{name}-{digest}.tsv"
    header = wanted.header
    if shard is not None:
        path, header = part_file(path, shard), {**header, SHARD: str(shard)}
    disk.make_folder(path.parent)
    with ExitStack() as held:
        with locked(run.certificates, wait=True):  # of two that begin at the same time, one finds the other's header
            _refuse_others(run, wanted)
            held.enter_context(locked(path))
            disk.sweep(path.parent, [path.name, header_file(path).name])
            file = CertificateFile(path, header, environment)
        yield file


@contextmanager
def open_named(path: Path, wanted: Wanted, environment: Mapping[str, Any] | None = None) -> Iterator[CertificateFile]:
    """A certificate file that the user named, new or continued; it is locked while it is open.

    Another header, or rows about other images, are refused.
    """
    if path.suffix != ".tsv" or path.is_dir():
        raise ValueError(f"the certificate file {path} should be a file whose name ends in .tsv")
    disk.make_folder(path.parent)
    with locked(path):
        disk.sweep(path.parent, [path.name, header_file(path).name])
        file = CertificateFile(path, wanted.header, environment)
        _refuse_other_data(path, wanted.header, file.rows(), wanted)
        yield file


def _refuse_others(run: Run, wanted: Wanted) -> None:
    """Refuse a second seed or other data for weights that have certificates."""
    for path, other in of_weights(run, wanted.header["weights"]):
        rows = rows_of(path, other)
        if other.get("seed") != wanted.header["seed"]:
            _refuse_overlap(path, other, rows, wanted)
        if _but_for_data(other) == _but_for_data(wanted.header):
            _refuse_other_data(path, other, rows, wanted)


def of_weights(run: Run, weights: str) -> list[tuple[Path, dict[str, Any]]]:
    """The certificate files of a run, and parts of such, that are about these weights, with their headers."""
    names = sorted((*run.certificates.glob("*.json"), *run.certificates.glob("parts/*.json")))
    found = [(path.with_suffix(".tsv"), read_header(path)) for path in names]
    return [(path, other) for path, other in found if other.get("weights") == weights]


def _refuse_overlap(path: Path, other: Mapping[str, Any], rows: Sequence[Row], wanted: Wanted) -> None:
    """Refuse images that have certificates under another seed: trying seeds until one certifies voids the guarantee."""
    if count := overlap(other, rows, wanted):
        raise RunError(
            f"{path} holds {count} of these images under seed {other.get('seed')}, not {wanted.header['seed']}: "
            "a seed is chosen before any result is known; continue with that one"
        )
    if not rows and other.get("data") == wanted.header.get("data") and is_locked(path):
        raise RunError(
            f"{path} is being made of these images under seed {other.get('seed')}, not {wanted.header['seed']}: "
            "a seed is named before looking; continue with that one"
        )


def overlap(other: Mapping[str, Any], rows: Sequence[Row], wanted: Wanted) -> int:
    """How many of the wanted images have a row: compared by index in the same data, by digest in other data."""
    if not rows:
        return 0
    if other.get("data") in (None, wanted.header.get("data")):
        return len({row.index for row in rows} & set(wanted.images))
    return len({row.digest for row in rows} & {wanted.digest_of(index) for index in wanted.images})


def _but_for_data(header: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in identity(header).items() if key not in ("data", "images", "format", SHARD)}


def _refuse_other_data(path: Path, other: Mapping[str, Any], rows: Sequence[Row], wanted: Wanted) -> None:
    """Refuse to continue where the rows are about other images."""
    advice = "continue with the data that it was started with, or move it away"
    for row in rows:
        if row.digest and row.digest != wanted.digest_of(row.index):
            raise RunError(f"{path} was made from other data: its image {row.index} differs; {advice}")
    if rows and other.get("data") != wanted.header.get("data"):
        raise RunError(f"{path} was made from other data: other images of the split differ; {advice}")

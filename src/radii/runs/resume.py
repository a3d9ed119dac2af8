"""Resume certification: which certificate file may be continued, on which images and with which seed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radii import disk
from radii.disk import is_locked, locked
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row, header_file, identity, read_header, read_rows
from radii.runs.repeats import overlap
from radii.runs.run import Run, RunError
from radii.runs.shards import SHARD, Shard, part_file


@dataclass(frozen=True)
class Request:
    """The certificates to compute."""

    header: Mapping[str, Any]
    images: Sequence[int]
    """The numbers of the images to certify."""
    digest_of: Callable[[int], str]
    """The digest of an image by its number; empty if there is no such image."""
    function: Mapping[str, Any] | None = None
    """What a new file records of the certified function."""


@contextmanager
def open_file(
    run: Run, request: Request, environment: Mapping[str, Any] | None = None, shard: Shard | None = None
) -> Iterator[CertificateFile]:
    """Open the certificate file of a run for this header, or a shard's part of it; new or continued, and locked.

    Images that these weights were certified on with another seed are refused, whatever else differs. So is continuing
    a file whose rows are about other images.
    """
    path, header = certificate_file(run, request.header, shard), request.header
    if shard is not None:
        header = {**header, SHARD: str(shard)}
    disk.make_folder(path.parent)
    with ExitStack() as stack:
        with locked(run.certificates, wait=True):  # of two processes that start at once, one sees the other's header
            _check_other_files(run, request)
            stack.enter_context(locked(path))
            disk.sweep(path.parent, [path.name, header_file(path).name])
            file = CertificateFile(path, header, environment, request.function)
        with _removed_if_empty(file):
            yield file


@contextmanager
def _removed_if_empty(file: CertificateFile) -> Iterator[None]:
    """Remove a certificate file if an error or a refusal ends the work before its first row."""
    try:
        yield
    except BaseException:
        if not file.rows():
            disk.remove(file.path)
            disk.remove(header_file(file.path))
        raise


def certificate_file(run: Run, header: Mapping[str, Any], shard: Shard | None = None) -> Path:
    """Return the certificate file of a run for this header, or a shard's part of it."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:8]
    path = run.certificates / f"{header['procedure'].replace(':', '-')}-{digest}.tsv"
    return path if shard is None else part_file(path, shard)


@contextmanager
def open_named(path: Path, request: Request, environment: Mapping[str, Any] | None = None) -> Iterator[CertificateFile]:
    """Open a certificate file that the user named; new or continued, and locked.

    A file with another header, or with rows about other images, is refused.
    """
    if path.suffix != ".tsv" or path.is_dir():
        raise ValueError(f"the certificate file {path} should be a file whose name ends in .tsv")
    disk.make_folder(path.parent)
    with locked(path):
        disk.sweep(path.parent, [path.name, header_file(path).name])
        file = CertificateFile(path, request.header, environment, request.function)
        check_same_images(path, request.header, file.rows(), request)
        with _removed_if_empty(file):
            yield file


def files_of_weights(run: Run, weights: str) -> list[tuple[Path, dict[str, Any]]]:
    """Find the certificate files of a run about these weights, and parts of such files; return them with headers."""
    headers = sorted((*run.certificates.glob("*.json"), *run.certificates.glob("parts/*.json")))
    files = [(path.with_suffix(".tsv"), read_header(path)) for path in headers]
    return [(path, header) for path, header in files if header.get("weights") == weights]


def files_alike(run: Run, header: Mapping[str, Any]) -> list[tuple[int, list[Row]]]:
    """Return `every` and the rows of files that differ from a header only in the choice of images.

    Those with the most images come first.
    """

    def settings(table: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in identity(table).items() if key not in ("every", "most", "format")}

    own = settings(header)
    alike = [
        (int(other["every"]), read_rows(path, other))
        for path, other in files_of_weights(run, header["weights"])
        if other.get("most") is None and SHARD not in other and settings(other) == own
    ]
    return sorted(alike, key=lambda file: file[0])


def _check_other_files(run: Run, request: Request) -> None:
    """Refuse a second seed, or other data, for weights that already have certificates."""
    for path, other in files_of_weights(run, request.header["weights"]):
        rows = read_rows(path, other)
        if other.get("seed") != request.header["seed"]:
            check_no_overlap(path, other, rows, request)
        if _without_data(other) == _without_data(request.header):
            check_same_images(path, other, rows, request)


def check_no_overlap(path: Path, other: Mapping[str, Any], rows: Sequence[Row], request: Request) -> None:
    """Refuse images that have certificates with another seed: trying seeds until one certifies voids the guarantee."""
    seed, new = other.get("seed"), request.header["seed"]
    advice = f"Choosing a seed after seeing results would bias them; use seed {seed}"
    if count := overlap(other, rows, request.header, request.images, request.digest_of):
        existing = f"{path} has certificates of {count} of these images"
        raise RunError(f"seed = {new}, but {existing} with seed {seed}. {advice}")
    if not rows and other.get("data") == request.header.get("data") and is_locked(path):
        raise RunError(f"seed = {new}, but {path} is being made of these images with seed {seed}. {advice}")


def check_same_images(path: Path, other: Mapping[str, Any], rows: Sequence[Row], request: Request) -> None:
    """Refuse to continue a file whose rows are about other images."""
    advice = "continue with the data that it was started with, or move it away"
    for row in rows:
        if row.digest and row.digest != request.digest_of(row.index):
            raise RunError(f"{path} was made from other data: its image {row.index} differs; {advice}")
    if rows and other.get("data") != request.header.get("data"):
        raise RunError(f"{path} was made from other data: other images of the split differ; {advice}")


def _without_data(header: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in identity(header).items() if key not in ("data", "images", "format", SHARD)}

"""Files of a proof about a population: the votes on every image, and a JSON header beside them.

The header states how the votes were made and holds the polynomials, which were fixed before the votes. The checksum of
the first line covers both. The lines are those of a certificate file that abstains on every image, because nothing is
proven about a single image. The proven accuracy is computed from the votes when the file is read.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from radii import disk
from radii.disk import locked
from radii.runs import certificates, readers, repeats, resume
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import KIND, POLYNOMIALS, POPULATION, Certificates, header_file
from radii.runs.resume import Request, check_no_overlap, check_same_images
from radii.runs.run import Run

Polynomials = Mapping[str, Sequence[float]]
LARGEST = 100.0
"""The size of the largest coefficient of a polynomial."""


def _are_numbers(value: Any, least: float, most: float) -> bool:
    are_numbers = isinstance(value, list) and bool(value) and all(map(readers.is_number, value))
    return are_numbers and all(least <= number <= most for number in value)


PARAMETERS: readers.Fields = {
    "votes": (readers.is_count, "a whole number >= 1"),
    "failure": readers.PARAMETERS["failure"],
    "radii": (lambda value: _are_numbers(value, 0, readers.MOST_RADIUS), "a list of numbers >= 0"),
}


@dataclass(frozen=True)
class Population:
    """A proof about all pictures like those of a sample, if each is answered by one noisy pass."""

    certificates: Certificates = field(repr=False)
    """The header and the votes of every image."""
    path: Path | None = None

    @property
    def header(self) -> Mapping[str, Any]:
        return self.certificates.header

    @property
    def images(self) -> int:
        return len(self.certificates.rows)

    @property
    def votes(self) -> int:
        """The number of votes on each image."""
        return int(self.certificates.parameters["votes"])

    @property
    def failure(self) -> float:
        """The probability that any of the proven accuracies is too high."""
        return float(self.certificates.parameters["failure"])

    @property
    def radii(self) -> tuple[float, ...]:
        return tuple(map(float, self.certificates.parameters["radii"]))

    @property
    def missing(self) -> int:
        """The number of images without votes; nothing is proven until it is 0."""
        header = self.header
        return len(range(0, header["images"], header["every"])[: header["most"]]) - self.images

    @cached_property
    def proven(self) -> dict[float, float]:
        """The proven accuracy under attack, by radius; empty while images are missing."""
        if self.missing or not self.images:
            return {}
        import numpy as np  # here, so that reports without such a file start without numpy and scipy

        from radii.smoothing.one_pass import proven_accuracy, random_order

        share = self.failure / len(self.radii)
        polynomials = self.header[POLYNOMIALS]
        rows = self.certificates.rows
        order = random_order(self.header["seed"], [row.index for row in rows])
        hits = np.array([rows[number].counts.get(rows[number].label, 0) for number in order])
        proven = {radius: proven_accuracy(np.array(polynomials[repr(radius)]), hits, share) for radius in self.radii}
        return {radius: min(accuracy, 1.0) for radius, accuracy in proven.items()}

    @property
    def accuracy(self) -> float:
        """The share of right votes without an attack: an estimate, not a bound."""
        rows = self.certificates.rows
        return sum(row.counts.get(row.label, 0) for row in rows) / (self.votes * len(rows)) if rows else 0.0


def read(path: Path) -> Population:
    """Read a file of a population and check its lines against its header."""
    file = header_file(path)
    if not file.is_file():
        raise ValueError(f"{path} has no header {file.name} beside it. Restore the header, or certify again.")
    header = certificates.read_header(file)
    _check_header(file, header)
    rows = certificates.read_rows(path, header)
    for row in rows:
        if sum(row.counts.values()) != header["parameters"]["votes"]:
            votes = sum(row.counts.values())
            raise ValueError(f"{path}: image {row.index} has {votes} votes, not those of its header. Restore the file.")
    return Population(Certificates(path.name.removesuffix(".tsv"), rows, header), path)


def _check_header(file: Path, header: Mapping[str, Any]) -> None:
    """Raise a ValueError for a header that lacks a field of the proof."""
    if header.get(KIND) != POPULATION:
        raise ValueError(f"{file} is not the header of a proof about a population. Name a file in RUN/population.")
    parameters, polynomials = header.get("parameters", {}), header.get(POLYNOMIALS, {})
    readers.check_fields(f"{file}: parameters.", parameters, PARAMETERS, required=True)
    for name in ("images", "every", "most", "seed"):
        if name not in header:
            raise ValueError(f"{file} has no {name!r}. Restore it, or certify again.")
    votes = parameters["votes"]
    if not all(len(polynomials.get(repr(float(radius)), ())) == votes + 1 for radius in parameters["radii"]):
        raise ValueError(f"{file} has no polynomial of {votes} votes for every radius. Restore it, or certify again.")
    if not all(_are_numbers(polynomial, -LARGEST, LARGEST) for polynomial in polynomials.values()):
        raise ValueError(f"{file} has a coefficient above {LARGEST:g} in size. Restore it.")


def files(run: Run) -> list[Path]:
    """Return the files of a run with proofs about a population, finished or not."""
    return sorted(run.population.glob("*.tsv"))


def beside(path: Path) -> list[Certificates]:
    """Read the other proofs in the folder of a file; those that cannot be read are left out."""
    return repeats.beside(path, lambda other: read(other).certificates)


def files_of_weights(run: Run, weights: str) -> list[tuple[Path, dict[str, Any]]]:
    """Return the proofs about these weights, as pairs of file and header."""
    pairs = [(path, certificates.read_header(header_file(path))) for path in files(run) if header_file(path).is_file()]
    return [(path, header) for path, header in pairs if header.get("weights") == weights]


def all_files_of_weights(run: Run, weights: str) -> list[tuple[Path, dict[str, Any]]]:
    """Return the certificate files and the proofs about these weights, as pairs of file and header."""
    return [*resume.files_of_weights(run, weights), *files_of_weights(run, weights)]


@contextmanager
def open_file(
    run: Run, request: Request, polynomials: Callable[[], Polynomials], environment: Mapping[str, Any] | None = None
) -> Iterator[CertificateFile]:
    """Open the file of a run for this header: new, or continued with the polynomials in its header.

    Raise an error for images on which the same weights have votes with another seed.
    """
    digest = hashlib.sha256(json.dumps(request.header, sort_keys=True).encode()).hexdigest()[:8]
    path = run.population / f"{request.header['procedure']}-{digest}.tsv"
    disk.make_folder(path.parent)
    with ExitStack() as stack:
        with locked(run.population, wait=True):
            for other, header in files_of_weights(run, request.header["weights"]):
                if header.get("seed") != request.header["seed"]:
                    check_no_overlap(other, header, certificates.read_rows(other, header), request)
            stack.enter_context(locked(path))
            file = _open(path, request, polynomials, environment)
        check_same_images(path, request.header, file.rows(), request)
        yield file


@contextmanager
def open_named(
    path: Path, request: Request, polynomials: Callable[[], Polynomials], environment: Mapping[str, Any] | None = None
) -> Iterator[CertificateFile]:
    """Open a file that the user named: new, or continued with the polynomials in its header."""
    if path.suffix != ".tsv" or path.is_dir():
        raise ValueError(f"{path} cannot hold votes. Name a file that ends in .tsv.")
    disk.make_folder(path.parent)
    with locked(path):
        file = _open(path, request, polynomials, environment)
        check_same_images(path, request.header, file.rows(), request)
        yield file


def _open(
    path: Path, request: Request, polynomials: Callable[[], Polynomials], environment: Mapping[str, Any] | None
) -> CertificateFile:
    disk.sweep(path.parent, [path.name, header_file(path).name])
    continued = header_file(path).is_file()
    header = request.header if continued else {**request.header, POLYNOMIALS: polynomials()}
    return CertificateFile(path, header, environment, request.function)

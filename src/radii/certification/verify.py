"""Verify the certificates of a run: compare digests, recompute radii from counts, and replay rows."""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from radii.certification.checks import (
    CheckResult,
    Verification,
    check_digests,
    check_header,
    check_images,
    check_population,
    check_radii,
    check_update,
)
from radii.certification.replay import replay
from radii.certification.update import FROM, named_old
from radii.errors import ParameterError
from radii.estimate import OnEstimate
from radii.runs import certificates as certificate_files
from radii.runs import population as population_files
from radii.runs.certificates import KIND, POPULATION, Certificates, Row
from radii.runs.repeats import repeats_note, shared_images
from radii.runs.run import Run

OnRow = Callable[[int, int], None]


@dataclass(frozen=True)
class VerificationResult(CheckResult):
    """The outcome of a verification."""

    files: int
    rows: int
    replayed: int
    differences: tuple[str, ...]
    """What differs from the certificates, one sentence each."""
    unchecked: tuple[str, ...]
    """What could not be checked, and why."""
    missing: int
    """Images that the files should contain but do not, or not yet."""
    moved: int
    """Votes of replayed rows for another class, all explained by rounding on another machine or engine."""
    votes: int = 0
    """Rows that hold votes about a population, and not a certificate."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader that no check can decide, one sentence each."""

    def in_words(self) -> str:
        """Describe the outcome in one line."""
        if self.problem:
            return self.problem
        missing = f", {_counted(self.missing, 'image')} still missing" if self.missing else ""
        equal = "all votes equal" if self.replayed else "so no votes compared"
        votes = equal if not self.moved else f"{self.moved} votes differ, which rounding explains"
        certificates = self.rows - self.votes
        counts = [_counted(certificates, "certificate")] if certificates or not self.votes else []
        counts += [f"votes on {_counted(self.votes, 'image')} about a population"] if self.votes else []
        count = f"{' and '.join(counts)} in {_counted(self.files, 'file')}"
        return "; ".join([f"equal: {count}, {self.replayed} replayed, {votes}{missing}", *self.notes])


def verify(
    run: Run | Path | str,
    file: Path | str | None = None,
    *,
    rows: int | None = 10,
    engine: str | None = None,
    batch_size: int | None = None,
    data: Path | str | None = None,
    trust: Collection[str] = (),
    workers: int = 1,
) -> VerificationResult:
    """Check the certificates of a run, or one of its certificate files, which may be elsewhere.

    Checksums, digests, seeds and radii are checked for every row. `rows` of each file, chosen at random, are replayed
    from their noise (all if it is None), by default with the engine that they were made with, and in forward passes of
    as many copies; another `batch_size` serves a machine with less memory.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> smoothed, out = radii.load(run, engine="torch"), f"{folder}/mine.tsv"
    >>> _ = radii.certify_dataset(smoothed, "digits", seed=0, max_images=2, estimation=1_000, out=out, workers=1)
    >>> radii.verify(run, out, rows=1).rows
    2
    """
    place, pictures = (None if path is None else Path(path) for path in (file, data))
    return verify_run(
        run, place, rows=rows, engine=engine, batch_size=batch_size, data=pictures, trust=trust, workers=workers
    )


def verify_run(
    run: Run | Path | str,
    file: Path | None = None,
    *,
    rows: int | None = 10,
    engine: str | None = None,
    batch_size: int | None = None,
    data: Path | None = None,
    trust: Collection[str] = (),
    workers: int = 1,
    on_row: OnRow = lambda *_: None,
    on_estimate: OnEstimate | None = None,
) -> VerificationResult:
    """Check the certificates of a run, or one of its certificate files, which may be elsewhere.

    Checksums, digests, seeds and radii are checked for every row. `rows` of each file, chosen at random, are replayed
    from their noise addresses (all if it is None), by default with the engine that they were made with. `on_estimate`
    is called with the estimated time of a file that needs many noisy copies, before they are counted.
    """
    for name, value, least in (("rows", rows, 0), ("batch_size", batch_size, 1), ("workers", workers, 1)):
        if value is not None and value < least:
            raise ParameterError(f"{name} = {value}, expected a whole number >= {least}", name)
    run = run if isinstance(run, Run) else Run(run, trust)
    verification = Verification(run, data, engine, batch_size=batch_size)
    files = _read(run, file, verification)
    replays = {path: _select(certificates.rows, rows) for path, certificates in files.items()}
    total = sum(map(len, replays.values()))
    for path, certificates in files.items():
        verification.begin(path, certificates)
        check_header(verification)
        if certificates.header.get(KIND) == POPULATION:
            check_population(verification)
        elif FROM in certificates.header:
            _follow(verification, rows, workers)
        else:
            check_radii(verification)
        if check_images(verification) and check_digests(verification) and replays[path]:
            for _ in replay(verification, replays[path], workers, on_estimate):
                on_row(verification.replayed, total)
    with_others = _with_others(run, files, verification)
    _check_seeds(files if file is None else with_others, verification)
    verification.notes += _repeats_notes(files, with_others)
    return VerificationResult(
        len(files),
        sum(len(certificates.rows) for certificates in files.values()),
        verification.replayed,
        tuple(verification.differences),
        tuple(verification.unchecked),
        verification.missing,
        verification.moved,
        sum(len(file.rows) for file in files.values() if file.header.get(KIND) == POPULATION),
        tuple(verification.notes),
    )


def _follow(verification: Verification, rows: int | None, workers: int) -> None:
    """Check an update against the certificates that it was made from, and verify those in their run."""
    try:
        old = named_old(verification.run, verification.header)
    except FileNotFoundError as error:
        verification.cannot_check(str(error))
        return
    except ValueError as error:
        verification.differs(str(error))
        return
    check_update(verification, old)
    before = verify_run(old.run, old.path, rows=rows, data=verification.data, workers=workers)
    verification.differences += before.differences
    verification.unchecked += before.unchecked
    verification.notes += [note for note in before.notes if note not in verification.notes]


def _read(run: Run, file: Path | None, verification: Verification) -> dict[Path, Certificates]:
    """Read the certificate files and record those that cannot be read."""
    run.recipe  # noqa: B018  raises first if it is not a run
    paths = [file] if file is not None else [*sorted(run.certificates.glob("*.tsv")), *population_files.files(run)]
    files: dict[Path, Certificates] = {}
    for path in paths:
        if not certificate_files.header_file(path).is_file() and path.is_file():
            verification.unchecked.append(f"{path} has no header beside it: how it was made is unknown")
            continue
        try:
            files[path] = _read_file(path)
        except ValueError as error:
            empty = path.is_file() and not certificate_files.has_rows(path)
            (verification.unchecked if empty or not path.is_file() else verification.differences).append(str(error))
    if not files and not verification.differences and not verification.unchecked:
        raise ParameterError(f"{run.path} holds no certificates to verify: make some first", "run")
    return files


def _read_file(path: Path) -> Certificates:
    header = certificate_files.header_file(path)
    if header.is_file() and certificate_files.read_header(header).get(KIND) == POPULATION:
        return population_files.read(path).certificates
    return certificate_files.read(path)


def _select(rows: Sequence[Row], count: int | None) -> list[Row]:
    """Select random rows to replay, which nobody can predict."""
    if count is None or count >= len(rows):
        return list(rows)
    numbers = random.SystemRandom().sample(range(len(rows)), count)
    return [rows[number] for number in sorted(numbers)]


def _check_seeds(files: Mapping[Path, Certificates], verification: Verification) -> None:
    """Record images that have certificates of the same weights under two seeds."""
    for (one, a), (other, b) in combinations(files.items(), 2):
        seeds = a.header.get("seed"), b.header.get("seed")
        if a.header.get("weights") != b.header.get("weights") or seeds[0] == seeds[1]:
            continue
        if a.header.get(KIND) != b.header.get(KIND):
            continue
        if count := shared_images(b, a):
            images = _counted(count, "image")
            verification.differences.append(
                f"{one} and {other} hold {images} under two seeds, {seeds[0]} and {seeds[1]}"
            )


def _repeats_notes(files: Mapping[Path, Certificates], with_others: Mapping[Path, Certificates]) -> Iterator[str]:
    """Yield a note on every file with images that other files of its kind have too."""
    for path, certificates in files.items():
        kind = certificates.header.get(KIND)
        others = [other for place, other in with_others.items() if place != path and other.header.get(KIND) == kind]
        if note := repeats_note(certificates, others, f"images of {path}"):
            yield note


def _with_others(run: Run, files: Mapping[Path, Certificates], verification: Verification) -> dict[Path, Certificates]:
    """Return the checked files and the run's other files of the same weights, to compare seeds and settings."""
    together, checked = dict(files), {path.resolve() for path in files}
    for path, header in population_files.all_files_of_weights(run, run.weights_digest()):
        try:
            rows = certificate_files.read_rows(path, header)
        except ValueError as error:
            verification.unchecked.append(str(error))
            continue
        if rows and path.resolve() not in checked:
            together[path] = Certificates(path.name, rows, header)
    return together


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"

"""Verification of certificates: digests are compared, radii recomputed from counts, rows replayed."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from radii.certification.checks import Checked, check_digests, check_header, check_images, check_radii, replay
from radii.errors import ParameterError
from radii.runs import certificates, resume
from radii.runs.certificates import Certificates, Row
from radii.runs.resume import Request
from radii.runs.run import Run

OnRow = Callable[[int, int], None]


@dataclass(frozen=True)
class VerificationResult:
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
    notes: tuple[str, ...] = ()
    """What a reader of the certificates should know and no check can decide, one sentence each."""

    @property
    def equal(self) -> bool:
        return not self.differences and not self.unchecked

    @property
    def exit_code(self) -> int:
        """0 if everything agrees with the certificates, 1 if something differs, 2 if something could not be checked."""
        return 1 if self.differences else 2 if self.unchecked else 0

    def in_words(self) -> str:
        """The outcome in one line."""
        if self.differences:
            return f"differs: {_first(self.differences)}"
        if self.unchecked:
            return f"cannot be checked: {_first(self.unchecked)}"
        missing = f", {_counted(self.missing, 'image')} still missing" if self.missing else ""
        equal = "all votes equal" if self.replayed else "so no votes compared"
        votes = equal if not self.moved else f"{self.moved} votes differ, which rounding explains"
        certificates = f"{_counted(self.rows, 'certificate')} in {_counted(self.files, 'file')}"
        return "; ".join([f"equal: {certificates}, {self.replayed} replayed, {votes}{missing}", *self.notes])


def verify_run(
    run: Run | Path | str,
    file: Path | None = None,
    *,
    rows: int | None = 10,
    engine: str | None = None,
    data: Path | None = None,
    trust: Collection[str] = (),
    workers: int = 1,
    on_row: OnRow = lambda *_: None,
) -> VerificationResult:
    """Check the certificates of a run, or one of its certificate files, which may be elsewhere.

    Checksums, digests, seeds and radii are checked for every row. `rows` of each file, chosen at random, are replayed
    from their noise addresses (all if it is None), by default with the engine that they were made with.
    """
    if rows is not None and rows < 0:
        raise ParameterError(f"rows = {rows}, expected a whole number >= 0", "rows")
    if workers < 1:
        raise ParameterError(f"workers = {workers}, expected a whole number >= 1", "workers")
    run = run if isinstance(run, Run) else Run(run, trust)
    checked = Checked(run, data, engine)
    known = _read(run, file, checked)
    replays = {path: _chosen(made.rows, rows) for path, made in known.items()}
    total = sum(map(len, replays.values()))
    for path, made in known.items():
        checked.begin(path, made)
        check_header(checked)
        check_radii(checked)
        if check_images(checked) and check_digests(checked) and replays[path]:
            for _ in replay(checked, replays[path], workers):
                on_row(checked.replayed, total)
    together = _with_others(run, known, checked)
    _check_seeds(known if file is None else together, checked)
    checked.notes += [note for path, made in known.items() if (note := _drawn_again(path, made, together))]
    return VerificationResult(
        len(known),
        sum(len(made.rows) for made in known.values()),
        checked.replayed,
        tuple(checked.differences),
        tuple(checked.unchecked),
        checked.missing,
        checked.moved,
        tuple(checked.notes),
    )


def _read(run: Run, file: Path | None, checked: Checked) -> dict[Path, Certificates]:
    """The certificate files that can be read, each with a header and rows."""
    run.recipe  # noqa: B018  raises first if it is not a run
    paths = [file] if file is not None else sorted(run.certificates.glob("*.tsv"))
    found: dict[Path, Certificates] = {}
    for path in paths:
        if not certificates.header_file(path).is_file() and path.is_file():
            checked.unchecked.append(f"{path} has no header beside it: how it was made is unknown")
            continue
        try:
            found[path] = certificates.read(path)
        except ValueError as error:
            empty = path.is_file() and path.read_bytes().count(b"\n") < 2
            (checked.unchecked if empty or not path.is_file() else checked.differences).append(str(error))
    if not found and not checked.differences and not checked.unchecked:
        raise ParameterError(f"{run.path} holds no certificates to verify: make some first", "run")
    return found


def _chosen(rows: Sequence[Row], count: int | None) -> list[Row]:
    """The rows to replay, chosen unpredictably."""
    if count is None or count >= len(rows):
        return list(rows)
    chosen = set(random.SystemRandom().sample(range(len(rows)), count))
    return [row for number, row in enumerate(rows) if number in chosen]


def _check_seeds(known: Mapping[Path, Certificates], checked: Checked) -> None:
    """Report images that have certificates of the same weights under two seeds."""
    for (one, a), (other, b) in combinations(known.items(), 2):
        seeds = a.header.get("seed"), b.header.get("seed")
        if a.header.get("weights") != b.header.get("weights") or seeds[0] == seeds[1]:
            continue
        digests = {row.index: row.digest for row in b.rows}
        if count := resume.overlap(a.header, a.rows, Request(b.header, list(digests), digests.__getitem__)):
            images = _counted(count, "image")
            checked.differences.append(f"{one} and {other} hold {images} under two seeds, {seeds[0]} and {seeds[1]}")


def _drawn_again(path: Path, made: Certificates, others: Mapping[Path, Certificates]) -> str:
    """Say how often images of a file were also certified with other settings: each is another chance to be wrong."""
    failures = [made.failure]
    digests = {row.index: row.digest for row in made.rows}
    request = Request(made.header, list(digests), digests.__getitem__)
    for place, other in others.items():
        same = all(made.header.get(key) == other.header.get(key) for key in ("weights", "noise", "seed"))
        if place != path and same and resume.overlap(other.header, other.rows, request):
            failures.append(other.failure)
    if len(failures) == 1 or None in failures:
        return ""
    times = _counted(len(failures) - 1, "time")
    total = sum(failure for failure in failures if failure is not None)
    return (
        f"images of {path} were also certified {times} with other settings: "
        f"the failure probability of the best of them is up to {total:.4g}"
    )


def _with_others(run: Run, known: Mapping[Path, Certificates], checked: Checked) -> dict[Path, Certificates]:
    """The checked files and the others of the run with the same weights, to compare their seeds and settings."""
    found = dict(known)
    for path, header in resume.files_of_weights(run, run.weights_digest()):
        try:
            rows = certificates.read_rows(path, header)
        except ValueError as error:
            checked.unchecked.append(str(error))
            continue
        if rows and path.resolve() not in {each.resolve() for each in known}:
            found[path] = Certificates(path.name, rows, header)
    return found


def _first(sentences: Sequence[str]) -> str:
    more = len(sentences) - 1
    return sentences[0] + (f"; and {more} more" if more else "")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"

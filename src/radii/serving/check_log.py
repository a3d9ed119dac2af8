"""Check the log of a folder of evidence without a forward pass: chain, sealed seeds, shares of failure and radii."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radii import certifiers
from radii.certification.checks import CheckResult, message_of, radius_problem
from radii.certifiers.base import Certifier
from radii.runs import trust
from radii.runs.certificates import Row
from radii.serving.answer import outcome
from radii.serving.budget import AskedIndex, share_of
from radii.serving.evidence import Entry, EvidenceError, cut_log, read_log, seal, table_digest
from radii.smoothing import noise as noises
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Noise

PROCEDURES = ("sequential", "prediction")
"""The certifiers that a server uses."""


@dataclass
class EvidenceResult(CheckResult):
    """The outcome of a check of evidence."""

    lines: int = 0
    answers: int = 0
    unanswered: int = 0
    """Requests without an answer: the server was killed, or the model failed."""
    replayed: int = 0
    head: str = ""
    """The digest of the last line."""
    claims: dict[str, int] = field(default_factory=dict)
    """Answers by mode and outcome."""
    differences: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def in_words(self) -> str:
        """Describe the outcome in one line."""
        if self.differences:
            return self.problem
        chain = f"{self.lines} lines in one chain, the last {self.head[:16]}"
        if self.unchecked:
            return f"{self.problem}; {chain}"
        unanswered = f", {self.unanswered} questions without an answer" if self.unanswered else ""
        return f"equal: {self.answers} answers, {self.replayed} replayed{unanswered}; {chain}"


@dataclass(frozen=True)
class Claim:
    """An answer in the log, with the sealed record of its request and the header of its model."""

    entry: Entry
    sealed: Mapping[str, Any]
    header: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"line {self.entry.number}"


class LogCheck:
    """Reads a log once, and adds to `result` what is wrong with it."""

    def __init__(self, folder: Path, trusted: frozenset[str]) -> None:
        self.folder, self.trusted = folder, trusted
        self.result = EvidenceResult()
        self._headers: dict[str, dict[str, Any]] = {}
        self._smoothing: dict[tuple[str, float | None], tuple[Certifier | None, Noise] | None] = {}

    def claims(self) -> Iterator[Claim]:
        """Read the whole log, check everything that needs no forward pass, and yield every answer."""
        pending: dict[str, Mapping[str, Any]] = {}
        if cut := cut_log(self.folder):  # before the log is read: a server may be writing
            self.result.differences.append(cut)
        asked = AskedIndex()
        try:
            for entry in read_log(self.folder):
                self.result.lines, self.result.head = entry.number, entry.digest
                yield from self._read(entry, pending, asked)
        except EvidenceError as error:
            self.result.differences.append(str(error))
        finally:
            asked.close()
        self.result.unanswered += len(pending)

    def _read(self, entry: Entry, pending: dict[str, Mapping[str, Any]], asked: AskedIndex) -> Iterator[Claim]:
        record = entry.record
        kind = record.get("kind")
        try:
            if kind in ("opened", "exchanged"):
                self._read_header(entry)
            elif kind == "sealed":
                self._check_sealed(entry, asked)
                if record["id"] in pending:
                    self._note(entry, "its id is taken by another question without an answer")
                pending[record["id"]] = record
            elif kind == "failed":
                del pending[record["id"]]
                self.result.unanswered += 1
            elif kind == "answer":
                sealed = pending.pop(record["id"])
                claim = Claim(entry, sealed, self._headers[sealed["header_digest"]])
                self.result.answers += 1
                self._check_answer(claim)
                yield claim
            else:
                self._note(entry, f"it is of an unknown kind, {kind!r}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._note(entry, f"it does not fit the lines before: {type(error).__name__}: {message_of(error)}")

    def _note(self, entry: Entry, problem: str) -> None:
        self.result.differences.append(f"line {entry.number}: {problem}")

    def _read_header(self, entry: Entry) -> None:
        header, digest = entry.record["header"], entry.record["header_digest"]
        if table_digest(header) != digest:
            self._note(entry, "its header has another digest than it states")
        self._headers[digest] = header

    def _check_sealed(self, entry: Entry, asked: AskedIndex) -> None:
        record = entry.record
        header = self._headers[record["header_digest"]]
        if record["weights"] != header["weights"]:
            self._note(entry, "it states other weights than its header")
        if header["procedure"] is None:
            return
        number = asked.ask(record["picture"], record["weights"])
        share = header["parameters"]["failure"] * share_of(number)
        if (record["asked"], record["failure"]) != (number, share):
            self._note(
                entry,
                f"the picture was asked about {number} times up to here, so its failure is {share:g}; "
                f"the line states {record['asked']} times and {record['failure']:g}",
            )

    def _check_answer(self, claim: Claim) -> None:
        record, header = claim.entry.record, claim.header
        key = f"{header['mode']}: {outcome(record['prediction'], record['stopped'])}"
        self.result.claims[key] = self.result.claims.get(key, 0) + 1
        if seal(int(record["seed"], 16)) != claim.sealed["sealed_seed"]:
            self._note(claim.entry, "its seed is not the one that was sealed before")
        if record["prediction"] == ABSTAIN:
            if record["radius"]:
                self._note(claim.entry, f"an abstention has the radius {record['radius']}")
            return
        if header["procedure"] is None:
            once = {"radius": 0.0, "samples": 1, "counts": {str(record["prediction"]): 1}}
            if any(record[name] != value for name, value in once.items()):
                self._note(claim.entry, "one noisy pass gives one vote, for its class, and no radius")
            return
        certifier, noise = self.smoothing_of(claim) or (None, None)
        if certifier is None or noise is None:
            return
        if problem := radius_problem(certifier, noise, _row(record), len(header["classes"])):
            self._note(claim.entry, problem)

    def smoothing_of(self, claim: Claim) -> tuple[Certifier | None, Noise] | None:
        """Return the certifier and the noise of an answer; None if they cannot be created."""
        key = claim.sealed["header_digest"], claim.sealed["failure"]
        if key not in self._smoothing:
            try:
                self._smoothing[key] = self._create(claim)
            except (LookupError, ValueError, TypeError) as error:
                self.result.unchecked.append(f"{claim.where}: its radius cannot be computed: {message_of(error)}")
                self._smoothing[key] = None
        return self._smoothing[key]

    def _create(self, claim: Claim) -> tuple[Certifier | None, Noise]:
        header = claim.header
        table = dict(header["noise"])
        name = table.pop("name")
        trust.require([name], self.trusted, self.folder)
        noise = noises.create(name, **table)
        if header["procedure"] is None:
            return None, noise
        if header["procedure"] not in PROCEDURES:
            raise ValueError(f"a server has no certifier {header['procedure']!r}")
        fields = {
            key: tuple(value) if isinstance(value, list) else value for key, value in header["parameters"].items()
        }
        certifier = certifiers.create(header["procedure"], **{**fields, "failure": claim.sealed["failure"]})
        return certifier, noise


def _row(record: Mapping[str, Any]) -> Row:
    counts = {int(label): int(votes) for label, votes in record["counts"].items()}
    return Row(0, 0, record["prediction"], record["radius"], 0.0, record["samples"], counts, "")

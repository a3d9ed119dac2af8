"""Check the log of a folder of evidence without a forward pass: chain, sealed seeds, shares of failure and radii."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radii import certifiers
from radii.certification.checks import CheckResult, message_of, radius_problem
from radii.certifiers.base import Certifier
from radii.runs import readers, trust
from radii.runs.certificates import Row
from radii.runs.readers import Fields, is_count, is_integer, is_number, is_object, is_text
from radii.serving.answer import outcome
from radii.serving.budget import AskedIndex, share_of
from radii.serving.evidence import Entry, EvidenceError, cut_log, is_digest, read_log, seal, table_digest
from radii.smoothing import noise as noises
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Noise

PROCEDURES: Mapping[Any, str | None] = {"certificate": "sequential", "vote": "prediction", "one-pass": None}
"""The certifiers that a server uses, by mode."""
MOST_ID = 200
"""Characters of the id of a request."""


def _is_seed(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32}", value) is not None


def _is_id(value: Any) -> bool:
    return is_text(value) and len(value) <= MOST_ID


def _is_text_or_none(value: Any) -> bool:
    return value is None or is_text(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 2 and all(map(is_text, value))


def _are_counts(value: Any) -> bool:
    return (
        is_object(value)
        and all(label.isdecimal() and len(label) < 10 for label in value)
        and all(is_integer(votes) and 0 <= votes <= readers.MOST_SAMPLES for votes in value.values())
    )


DIGEST = (is_digest, "a digest")
MODEL: Fields = {"header": (is_object, "an object"), "header_digest": DIGEST}
RECORDS: Mapping[Any, Fields] = {
    "opened": MODEL,
    "exchanged": MODEL,
    "failed": {"id": (_is_id, "a text")},
    "sealed": {
        "id": (_is_id, "a text"),
        "picture": DIGEST,
        "weights": DIGEST,
        "header_digest": DIGEST,
        "asked": (lambda value: value is None or is_count(value), "a whole number >= 1, or null"),
        "failure": (lambda value: value is None or (is_number(value) and 0 < value < 1), "a probability, or null"),
        "sealed_seed": DIGEST,
    },
    "answer": {
        "id": (_is_id, "a text"),
        "prediction": (is_integer, "a whole number"),
        "radius": (lambda value: is_number(value) and 0 <= value <= readers.MOST_RADIUS, "a radius"),
        "samples": (lambda value: is_integer(value) and 0 <= value <= readers.MOST_SAMPLES, "a number of samples"),
        "counts": (_are_counts, "votes by class"),
        "stopped": (lambda value: isinstance(value, bool), "true or false"),
        "seed": (_is_seed, "32 hexadecimal digits"),
    },
}
"""What the records of each kind hold."""
HEADER: Fields = {
    **{name: readers.HEADER[name] for name in ("parameters", "noise", "norm", "sigma", "engine", "device", "dataset")},
    **{name: readers.HEADER[name] for name in ("code", "artefact", "batch_size", "function")},
    "mode": (lambda value: is_text(value) and value in PROCEDURES, f"one of {', '.join(PROCEDURES)}"),
    "procedure": (_is_text_or_none, "a name or null"),
    "stream": (_is_text_or_none, "a name or null"),
    "weights": DIGEST,
    "classes": (_are_texts, "a list of texts"),
    "environment": (readers.is_environment, "an object"),
    **dict.fromkeys(("run", "model", "prepared", "radii"), (is_text, "a text")),
}


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
            if not is_text(kind) or kind not in RECORDS:
                self._note(entry, f"it is of an unknown kind, {readers.short_repr(kind)}")
                return
            readers.check_fields("", record, RECORDS[kind], required=True)
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
            else:
                sealed = pending.pop(record["id"])
                claim = Claim(entry, sealed, self._headers[sealed["header_digest"]])
                self.result.answers += 1
                self._check_answer(claim)
                yield claim
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._note(entry, f"it does not fit the lines before: {type(error).__name__}: {_short(error)}")

    def _note(self, entry: Entry, problem: str) -> None:
        self.result.differences.append(f"line {entry.number}: {problem}")

    def _read_header(self, entry: Entry) -> None:
        header, digest = entry.record["header"], entry.record["header_digest"]
        readers.check_fields("header.", header, HEADER, required=True)
        readers.check_smoothing("header.", header)
        if header["procedure"] != PROCEDURES[header["mode"]]:
            raise ValueError(f"the mode {header['mode']} has no certifier {readers.short_repr(header['procedure'])}")
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
                self.result.unchecked.append(f"{claim.where}: its radius cannot be computed: {_short(error)}")
                self._smoothing[key] = None
        return self._smoothing[key]

    def _create(self, claim: Claim) -> tuple[Certifier | None, Noise]:
        header = claim.header
        table = dict(header["noise"])
        name = table.pop("name")
        trust.require([name], self.trusted, self.folder)
        noise = noises.create(name, **table)
        if header["norm"] != noise.norm.name:
            self.result.differences.append(
                f"{claim.where}: its header states radii in {header['norm']}, the noise has them in {noise.norm}"
            )
        if header["procedure"] is None:
            return None, noise
        fields = {
            key: tuple(value) if isinstance(value, list) else value for key, value in header["parameters"].items()
        }
        certifier = certifiers.create(header["procedure"], **{**fields, "failure": claim.sealed["failure"]})
        return certifier, noise


def _short(error: Exception) -> str:
    return readers.short(message_of(error))


def _row(record: Mapping[str, Any]) -> Row:
    counts = {int(label): int(votes) for label, votes in record["counts"].items()}
    return Row(0, 0, record["prediction"], record["radius"], 0.0, record["samples"], counts, "")

"""Check evidence: the chain, the sealed seeds, the shares of failure, the radii, and some answers again."""

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radii import certifiers, datasets
from radii.certification.certify import environment_of
from radii.certification.checks import message_of, radius_problem
from radii.certification.load import open_run
from radii.certifiers.base import About, Certifier, TimeUp
from radii.engines import SmoothedClassifier
from radii.errors import ParameterError
from radii.runs import trust
from radii.runs.certificates import Row
from radii.runs.function import COARSE, function_difference
from radii.runs.recipe import fields_of
from radii.runs.run import Run
from radii.serving.budget import AskedIndex, share_of
from radii.serving.evidence import (
    Entry,
    EvidenceError,
    is_evidence,
    picture_digest,
    picture_file,
    read_log,
    seal,
    table_digest,
)
from radii.serving.model import Steps, one_pass_steps
from radii.smoothing import noise as noises
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import Noise
from radii.smoothing.questions import Task
from radii.training.weights import model_digest, model_spec
from radii.workers.voter import one_thread

PROCEDURES = ("sequential", "prediction")
"""The certifiers of a server."""
OnAnswer = Callable[[int, int], None]


@dataclass
class EvidenceResult:
    """The outcome of a check of evidence."""

    lines: int = 0
    answers: int = 0
    unanswered: int = 0
    """Questions without an answer: a kill ended them, or the model failed."""
    replayed: int = 0
    head: str = ""
    """The digest of the last line: whoever has noted an earlier one finds it in the log."""
    claims: dict[str, int] = field(default_factory=dict)
    """Answers by mode and outcome."""
    differences: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.differences and not self.unchecked

    @property
    def exit_code(self) -> int:
        """0 if everything agrees with the evidence, 1 if something differs, 2 if something could not be checked."""
        return 1 if self.differences else 2 if self.unchecked else 0

    def in_words(self) -> str:
        """Describe the outcome in one line."""
        if self.differences:
            return f"differs: {_first(self.differences)}"
        chain = f"{self.lines} lines in one chain, the last {self.head[:16]}"
        if self.unchecked:
            return f"cannot be checked: {_first(self.unchecked)}; {chain}"
        lost = f", {self.unanswered} questions without an answer" if self.unanswered else ""
        return f"equal: {self.answers} answers, {self.replayed} replayed{lost}; {chain}"


@dataclass(frozen=True)
class _Claim:
    """An answer in the log, with what was sealed before it."""

    entry: Entry
    sealed: Mapping[str, Any]
    header: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"line {self.entry.number}"


def verify_evidence(
    folder: Path | str,
    run: Run | Path | str | None = None,
    *,
    pictures: Path | None = None,
    rows: int | None = 10,
    trusted: Collection[str] = (),
    on_answer: OnAnswer = lambda *_: None,
) -> EvidenceResult:
    """Check a folder of evidence; replay `rows` answers chosen at random (all if it is None) with the run they are of.

    Pictures are those that the evidence keeps, and those in the folder `pictures`.
    """
    place = Path(folder)
    if not is_evidence(place):
        raise ParameterError(f"{place} holds no evidence. Name a folder that `radii serve --evidence` wrote.", "folder")
    if rows is not None and rows < 0:
        raise ParameterError(f"rows = {rows}, expected a whole number >= 0", "rows")
    run = run if isinstance(run, Run) or run is None else Run(run, trusted)
    audit = _Audit(place, run, pictures, frozenset(trusted) if run is None else run.trusted)
    chosen: list[_Claim] = []
    rng = random.SystemRandom()
    for claim in audit.claims():
        if rows == 0 or not audit.can_replay(claim):
            continue
        if rows is None:
            audit.replay(claim)
            on_answer(audit.result.replayed, audit.result.answers)
        elif len(chosen) < rows:
            chosen.append(claim)
        elif (at := rng.randrange(audit.replayable)) < rows:
            chosen[at] = claim
    for claim in chosen:
        audit.replay(claim)
        on_answer(audit.result.replayed, len(chosen))
    if rows != 0:
        audit.report_not_replayed(everything=rows is None)
    return audit.result


class _Audit:
    """A check in progress."""

    def __init__(self, folder: Path, run: Run | None, pictures: Path | None, trusted: frozenset[str]) -> None:
        self.folder, self.run, self.trusted = folder, run, trusted
        self.result = EvidenceResult()
        self.replayable = 0
        self._pictures = pictures
        self._headers: dict[str, dict[str, Any]] = {}
        self._parts: dict[tuple[str, float | None], tuple[Certifier | None, Noise] | None] = {}
        self._classifiers: dict[str, SmoothedClassifier | None] = {}
        self._lacking = {"pictures": 0, "weights": 0, "run": 0}

    # The log

    def claims(self) -> Iterator[_Claim]:
        """Read the whole log, check what needs no forward pass, and yield every answer."""
        pending: dict[str, Mapping[str, Any]] = {}
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

    def _read(self, entry: Entry, pending: dict[str, Mapping[str, Any]], asked: AskedIndex) -> Iterator[_Claim]:
        record = entry.record
        kind = record.get("kind")
        try:
            if kind in ("opened", "exchanged"):
                self._read_header(entry)
            elif kind == "sealed":
                self._check_sealed(entry, asked)
                pending[record["id"]] = record
            elif kind == "failed":
                del pending[record["id"]]
                self.result.unanswered += 1
            elif kind == "answer":
                sealed = pending.pop(record["id"])
                claim = _Claim(entry, sealed, self._headers[sealed["header_digest"]])
                self.result.answers += 1
                self._check_answer(claim)
                yield claim
            else:
                self._differs(entry, f"it is of an unknown kind, {kind!r}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._differs(entry, f"it does not fit the lines before: {type(error).__name__}: {message_of(error)}")

    def _differs(self, entry: Entry, what: str) -> None:
        self.result.differences.append(f"line {entry.number}: {what}")

    def _read_header(self, entry: Entry) -> None:
        header, digest = entry.record["header"], entry.record["header_digest"]
        if table_digest(header) != digest:
            self._differs(entry, "its header has another digest than it states")
        self._headers[digest] = header

    def _check_sealed(self, entry: Entry, asked: AskedIndex) -> None:
        record = entry.record
        header = self._headers[record["header_digest"]]
        if record["weights"] != header["weights"]:
            self._differs(entry, "its weights are not those of its header")
        if header["procedure"] is None:
            return
        number = asked.ask(record["picture"], record["weights"])
        share = header["parameters"]["failure"] * share_of(number)
        if (record["asked"], record["failure"]) != (number, share):
            self._differs(
                entry,
                f"the picture was asked about {number} times, with a failure of {share:g}, "
                f"not {record['asked']} times with {record['failure']:g}",
            )

    def _check_answer(self, claim: _Claim) -> None:
        record, header = claim.entry.record, claim.header
        outcome = "answered" if record["prediction"] != ABSTAIN else "deadline" if record["stopped"] else "abstained"
        key = f"{header['mode']}: {outcome}"
        self.result.claims[key] = self.result.claims.get(key, 0) + 1
        if seal(int(record["seed"], 16)) != claim.sealed["sealed_seed"]:
            self._differs(claim.entry, "its seed is not the one that was sealed before")
        if record["prediction"] == ABSTAIN:
            if record["radius"]:
                self._differs(claim.entry, f"an abstention has the radius {record['radius']}")
            return
        certifier, noise = self._parts_of(claim) or (None, None)
        if certifier is None or noise is None:
            return
        if problem := radius_problem(certifier, noise, _row(record), len(header["classes"])):
            self._differs(claim.entry, problem)

    def _parts_of(self, claim: _Claim) -> tuple[Certifier | None, Noise] | None:
        """Return the certifier and the noise of an answer; None if they cannot be made."""
        key = claim.sealed["header_digest"], claim.sealed["failure"]
        if key not in self._parts:
            try:
                self._parts[key] = self._make_parts(claim)
            except (LookupError, ValueError, TypeError) as error:
                self.result.unchecked.append(f"{claim.where}: its radius cannot be computed: {message_of(error)}")
                self._parts[key] = None
        return self._parts[key]

    def _make_parts(self, claim: _Claim) -> tuple[Certifier | None, Noise]:
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

    # Replays

    def can_replay(self, claim: _Claim) -> bool:
        """Return whether the run, its weights and the picture are here; count what is not."""
        lacking = ""
        if self.run is None:
            lacking = "run"
        elif claim.header["weights"] != self.run.weights_digest():
            lacking = "weights"
        elif not (picture_file(self.folder, claim.sealed["picture"]).is_file() or self._found(claim)):
            lacking = "pictures"
        if lacking:
            self._lacking[lacking] += 1
        else:
            self.replayable += 1
        return not lacking

    def report_not_replayed(self, everything: bool) -> None:
        """Say why answers could not be replayed, if that was asked for."""
        if not self.result.answers or (self.replayable and not everything):
            return
        words = {
            "run": "answers need their run to be replayed: name it",
            "weights": "answers are of other weights than the run has",
            "pictures": "answers have no picture here: name a folder of pictures",
        }
        self.result.unchecked += [f"{count} {words[what]}" for what, count in self._lacking.items() if count]

    def replay(self, claim: _Claim) -> None:
        """Answer a question again from its seed, and compare."""
        try:
            again = self._again(claim)
        except (LookupError, ValueError, TypeError, OSError) as error:
            self.result.unchecked.append(f"{claim.where} cannot be replayed: {message_of(error)}")
            return
        if again is None:
            return
        self.result.replayed += 1
        record = claim.entry.record
        counts = {str(label): votes for label, votes in enumerate(again.counts) if votes}
        got = (again.prediction, again.radius, again.samples, counts)
        if got == (record["prediction"], record["radius"], record["samples"], record["counts"]):
            return
        what = (
            f"{claim.where}: a replay gives class {again.prediction} with radius {again.radius} from {again.samples} "
            f"samples, not {record['prediction']} with {record['radius']} from {record['samples']}"
        )
        classifier = self._classifier(claim)
        here = classifier is not None and environment_of(classifier) == claim.header["environment"]
        (self.result.differences if here else self.result.unchecked).append(
            what if here else f"{what}, which rounding on this machine may explain"
        )

    def _again(self, claim: _Claim) -> Certificate | None:
        parts, classifier = self._parts_of(claim), self._classifier(claim)
        if parts is None or classifier is None:
            return None
        certifier = parts[0]
        stream = claim.header.get("stream")
        about = About.voter(classifier, stream)
        steps = one_pass_steps() if certifier is None else certifier.certify(about)
        record = claim.entry.record
        address = NoiseAddress(int(record["seed"], 16), stream=stream)
        samples = record["samples"] if record["stopped"] else None
        with one_thread():
            return _driven(steps, classifier, self._picture(claim), address, samples)

    def _classifier(self, claim: _Claim) -> SmoothedClassifier | None:
        digest = claim.sealed["header_digest"]
        if digest not in self._classifiers:
            self._classifiers[digest] = self._load(claim)
        return self._classifiers[digest]

    def _load(self, claim: _Claim) -> SmoothedClassifier | None:
        """Load the classifier of a header, or say how it differs from the one that answered."""
        header, run, parts = claim.header, self.run, self._parts_of(claim)
        if run is None or parts is None:
            return None
        trust.require([header["engine"]], self.trusted, self.folder)
        with one_thread():
            _, classifier = open_run(run, header["engine"], parts[1], None, header["batch_size"], data_at_hand=False)
            logits = classifier.probe_logits(model_spec(run).shape)
        function = {"model": model_digest(run.recipe), "logits": logits}
        if difference := function_difference(header["function"], function, COARSE):
            self.result.differences.append(f"{claim.where}: it was made with {difference}")
            return None
        return classifier

    def _picture(self, claim: _Claim) -> Tensor:
        digest = claim.sealed["picture"]
        kept = picture_file(self.folder, digest)
        assert self.run is not None
        if not kept.is_file():
            return self._prepared[digest]
        pixels = np.frombuffer(kept.read_bytes(), "<f4").reshape(model_spec(self.run).shape).astype(np.float32)
        if picture_digest(pixels) != digest:
            raise ValueError("its kept picture was changed")
        return torch.from_numpy(pixels)

    def _found(self, claim: _Claim) -> bool:
        return claim.sealed["picture"] in self._prepared

    @cached_property
    def _prepared(self) -> dict[str, Tensor]:
        """The pictures of the folder that was named, prepared as the run's test images, by their digests."""
        if self._pictures is None or self.run is None:
            return {}
        dataset = self.run.recipe.dataset
        read = datasets.preparation(dataset["name"], fields_of(dataset), model_spec(self.run).shape).read
        prepared = {}
        for file in datasets.pictures_in(self._pictures):
            try:
                pixels = read(file)
            except (ValueError, OSError):
                continue  # not a picture of the kind that was answered
            prepared[picture_digest(pixels.float().numpy())] = pixels.float()
        return prepared


def _driven(
    steps: Steps, classifier: SmoothedClassifier, image: Tensor, address: NoiseAddress, samples: int | None
) -> Certificate:
    """Answer a program's questions, up to this many samples if a deadline ended it."""
    asked, answer = 0, None
    while True:
        try:
            question = steps.send(answer)
            if samples is not None and asked + question.count > samples:
                steps.throw(TimeUp())
        except StopIteration as stopped:
            certificate: Certificate = stopped.value
            return certificate
        except TimeUp:
            return Certificate(ABSTAIN, 0.0, asked)
        (answer,) = classifier.count([Task(image, address, question)])
        question.check(answer, classifier.classes)
        asked += question.count


def _row(record: Mapping[str, Any]) -> Row:
    counts = {int(label): int(votes) for label, votes in record["counts"].items()}
    return Row(0, 0, record["prediction"], record["radius"], 0.0, record["samples"], counts, "")


def _first(sentences: list[str]) -> str:
    more = len(sentences) - 1
    return sentences[0] + (f"; and {more} more" if more else "")

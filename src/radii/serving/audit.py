"""Audit evidence: check the whole log, and replay some of its answers by counting votes again from their seeds."""

import math
import random
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radii import datasets
from radii.certification.certify import environment_of
from radii.certification.checks import message_of
from radii.certification.load import open_run
from radii.certifiers.base import About, TimeUp
from radii.engines import SmoothedClassifier
from radii.errors import ParameterError
from radii.provenance import artefact_digest, artefact_path, code_digests
from radii.runs import readers, trust
from radii.runs.function import COARSE, function_difference
from radii.runs.recipe import fields_of
from radii.runs.run import Run
from radii.serving.check_log import Claim, EvidenceResult, LogCheck
from radii.serving.evidence import is_evidence, picture_digest, picture_file
from radii.serving.model import Steps, one_pass_steps
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.questions import Task
from radii.training.weights import model_spec
from radii.workers.voter import one_thread

OnAnswer = Callable[[int, int], None]


def verify_evidence(
    folder: Path | str,
    run: Run | Path | str | None = None,
    *,
    pictures: Path | None = None,
    rows: int | None = 10,
    trusted: Collection[str] = (),
    on_answer: OnAnswer = lambda *_: None,
) -> EvidenceResult:
    """Check a folder of evidence, and replay `rows` answers, chosen at random, with the run that gave them.

    If `rows` is None, all answers are replayed. Pictures are those that the evidence keeps, and those in the folder
    `pictures`.
    """
    folder = Path(folder)
    if not is_evidence(folder):
        raise ParameterError(
            f"{folder} holds no evidence. Name a folder that `radii serve --evidence` wrote.", "folder"
        )
    if rows is not None and rows < 0:
        raise ParameterError(f"rows = {rows}, expected a whole number >= 0", "rows")
    run = run if isinstance(run, Run) or run is None else Run(run, trusted)
    log = LogCheck(folder, frozenset(trusted) if run is None else run.trusted)
    replay = AnswerReplay(log, run, pictures)
    chosen: list[Claim] = []
    rng = random.SystemRandom()
    for claim in log.claims():
        if rows == 0 or not replay.can_replay(claim):
            continue
        if rows is None:
            replay.replay(claim)
            on_answer(log.result.replayed, log.result.answers)
        elif len(chosen) < rows:
            chosen.append(claim)
        elif (place := rng.randrange(replay.replayable)) < rows:  # every answer gets the same chance
            chosen[place] = claim
    for claim in chosen:
        replay.replay(claim)
        on_answer(log.result.replayed, len(chosen))
    if rows != 0:
        replay.report_not_replayed(everything=rows is None)
    return log.result


class ChangedPictureError(Exception):
    """The content of a kept picture does not have the digest in its name."""


class AnswerReplay:
    """Replays answers of a log with a run, and adds the outcome to the result of the log's check."""

    def __init__(self, log: LogCheck, run: Run | None, pictures: Path | None) -> None:
        self.log, self.run = log, run
        self.replayable = 0
        self._pictures = pictures
        self._classifiers: dict[str, SmoothedClassifier | None] = {}
        self._missing = {"pictures": 0, "weights": 0, "run": 0}

    def can_replay(self, claim: Claim) -> bool:
        """Return whether the run, its weights and the picture are here; count what is missing."""
        missing = ""
        if self.run is None:
            missing = "run"
        elif claim.header["weights"] != self.run.weights_digest():
            missing = "weights"
        elif not (
            picture_file(self.log.folder, claim.sealed["picture"]).is_file()
            or claim.sealed["picture"] in self._prepared
        ):
            missing = "pictures"
        if missing:
            self._missing[missing] += 1
        else:
            self.replayable += 1
        return not missing

    def report_not_replayed(self, everything: bool) -> None:
        """Report why answers could not be replayed, if none could be or if `everything` should have been."""
        if not self.log.result.answers or (self.replayable and not everything):
            return
        reasons = {
            "run": "answers need their run to be replayed: name it",
            "weights": "answers were given by other weights than the run has",
            "pictures": "answers have no picture here: name a folder of pictures",
        }
        self.log.result.unchecked += [f"{count} {reasons[what]}" for what, count in self._missing.items() if count]

    def replay(self, claim: Claim) -> None:
        """Count an answer's votes again from its seed, and compare."""
        try:
            certificate = self._certificate(claim)
        except ChangedPictureError:
            self.log.result.differences.append(f"{claim.where}: the picture that was kept for it has changed")
            return
        except (LookupError, ValueError, TypeError, OSError) as error:
            self.log.result.unchecked.append(f"{claim.where} cannot be replayed: {readers.short(message_of(error))}")
            return
        if certificate is None:
            return
        self.log.result.replayed += 1
        record = claim.entry.record
        counts = {str(label): votes for label, votes in enumerate(certificate.counts) if votes}
        replayed = (certificate.prediction, certificate.radius, certificate.samples, counts)
        if replayed == (record["prediction"], record["radius"], record["samples"], record["counts"]):
            return
        difference = (
            f"{claim.where}: a replay gives class {certificate.prediction} with radius {certificate.radius} from "
            f"{certificate.samples} samples, "
            f"not {record['prediction']} with {record['radius']} from {record['samples']}"
        )
        classifier = self._classifier(claim)
        same_rounding = classifier is not None and environment_of(classifier) == claim.header["environment"]
        if same_rounding:
            self.log.result.differences.append(difference)
        else:
            self.log.result.unchecked.append(f"{difference}, which rounding on this machine may explain")

    def _certificate(self, claim: Claim) -> Certificate | None:
        """Compute an answer again; None if its certifier or classifier is not available."""
        smoothing, classifier = self.log.smoothing_of(claim), self._classifier(claim)
        if smoothing is None or classifier is None:
            return None
        certifier = smoothing[0]
        stream = claim.header.get("stream")
        about = About.voter(classifier, stream)
        steps = one_pass_steps() if certifier is None else certifier.certify(about)
        record = claim.entry.record
        address = NoiseAddress(int(record["seed"], 16), stream=stream)
        samples = record["samples"] if record["stopped"] else None
        with one_thread():
            return _answer(steps, classifier, self._picture(claim), address, samples)

    def _classifier(self, claim: Claim) -> SmoothedClassifier | None:
        digest = claim.sealed["header_digest"]
        if digest not in self._classifiers:
            self._classifiers[digest] = self._load(claim)
        return self._classifiers[digest]

    def _load(self, claim: Claim) -> SmoothedClassifier | None:
        """Load the classifier of an answer; report it, and return None, if it is not the one that answered."""
        header, run, smoothing = claim.header, self.run, self.log.smoothing_of(claim)
        if run is None or smoothing is None:
            return None
        trust.require([header["engine"]], self.log.trusted, self.log.folder)
        if difference := _changed(header, run):
            self.log.result.differences.append(f"{claim.where}: {difference}")
            return None
        with one_thread():
            _, classifier = open_run(
                run, header["engine"], smoothing[1], None, header["batch_size"], data_at_hand=False
            )
            logits = classifier.probe_logits(model_spec(run).shape)
        function = {"model": run.recipe.model_digest, "logits": logits}
        if difference := function_difference(header["function"], function, COARSE):
            self.log.result.differences.append(f"{claim.where}: it was made with {difference}")
            return None
        return classifier

    def _picture(self, claim: Claim) -> Tensor:
        digest = claim.sealed["picture"]
        kept = picture_file(self.log.folder, digest)
        assert self.run is not None
        if not kept.is_file():
            return self._prepared[digest]
        shape = model_spec(self.run).shape
        if kept.stat().st_size != 4 * math.prod(shape):
            raise ChangedPictureError
        content = kept.read_bytes()
        pixels = np.frombuffer(content, "<f4").reshape(shape).astype(np.float32)
        if picture_digest(pixels) != digest:
            raise ChangedPictureError
        return torch.from_numpy(pixels)

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


def _changed(header: Mapping[str, Any], run: Run) -> str:
    """Describe what of a run is not as a header of answers states it; empty if nothing is."""
    if header["classes"] != list(model_spec(run).class_names):
        return "its header names other classes than the run has"
    changed = [name for name, digest in code_digests(header["code"]).items() if digest != header["code"][name]]
    if changed:
        return f"the code of {changed[0]} has changed"
    if artefact_digest(artefact_path(run, header["engine"], run.weights_digest())) != header["artefact"]:
        return f"the artefact of the engine {header['engine']!r} has changed, or is missing"
    return ""


def _answer(
    steps: Steps, classifier: SmoothedClassifier, image: Tensor, address: NoiseAddress, samples: int | None
) -> Certificate:
    """Run a certifier on an image; `samples` are those after which a deadline stopped it, if one did."""
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

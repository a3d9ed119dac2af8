"""Certify the images of a run from the certificates of old weights: ask both functions about the same copies."""

from collections.abc import Generator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from radii.certification.certify import (
    Certification,
    CertificationConfig,
    certify_missing,
    counted_workers,
    environment_of,
    for_workers,
    open_certification,
    stated_batch_size,
)
from radii.certification.data import named_in
from radii.certification.pictures import keep_pictures
from radii.certification.update import FROM, OldCertificates, Update
from radii.errors import ParameterError
from radii.estimate import Estimate, OnEstimate
from radii.runs import events, resume
from radii.runs.certificates import OnImage, Row, recorded_difference
from radii.runs.run import Run, RunError
from radii.smoothing import noise as noises
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.questions import Hits
from radii.workers.backends import forecast_programs, run_programs
from radii.workers.scheduler import Program

PAIRED = 1_000_000
"""The stage of the draws that both functions see, beyond those of every certifier; the next one for the next update."""
TOGETHER = 2_000
"""Images whose old answers are kept in memory before the new function is asked."""


@dataclass(frozen=True, kw_only=True)
class UpdateCertification(Certification):
    """A certification of new weights that asks both functions about the same copies."""

    old: OldCertificates
    before: Certification
    """The old weights on the same images."""
    update: Update = field(default_factory=Update)

    def rows(
        self, indices: Sequence[int], workers: int = 1, executor: Executor | None = None
    ) -> Generator[Row, None, None]:
        """Certify images and yield their rows in order."""
        known = self.old.rows
        for start in range(0, len(indices), TOGETHER):
            part = indices[start : start + TOGETHER]
            asked = [index for index in part if known[index].prediction != ABSTAIN]
            paired = [index for index in asked if self._copies(index) == self.update.samples]
            hits = self._hits(self.before, paired, workers, executor) if paired else ()
            wins = {index: np.packbits(answer) for index, (answer, _, _) in zip(paired, hits, strict=True)}
            with closing(self._hits(self, asked, workers, executor)) as answers:
                for index in part:
                    old = known[index]
                    if old.prediction == ABSTAIN:
                        yield replace(old, radius=0.0, seconds=0.0, samples=0, counts={})
                        continue
                    answer, seconds, environments = next(answers)
                    if index in wins:  # copies that the old function lost do not count
                        answer = answer | (1 - np.unpackbits(wins.pop(index), count=self.update.samples))
                    row = self._row(old, int(answer.sum()))
                    yield replace(row, seconds=seconds, environments=tuple(environments))

    def forecast(self, indices: Sequence[int]) -> Estimate | None:
        """Estimate the seconds of one worker for one of these images, about which both functions are asked."""
        return forecast_programs(self.classifier, lambda position: self._both(indices[position]), len(indices))

    def _both(self, index: int) -> Program[Any]:
        """Return a program that asks for as many copies as both functions get."""
        old = self.old.rows[index]
        copies = 0 if old.prediction == ABSTAIN else 2 * self._copies(index)
        questions = [Hits(PAIRED + self.old.links, 0, copies, old.prediction)] if copies else []
        return Program(self.samples.sample(index)[0], NoiseAddress(self.seed, index), _answer(*questions))

    def _copies(self, index: int) -> int:
        share = self.update.share(self.old.failure)
        return self.update.copies(self.old.rows[index].radius, share, self.classifier.noise)

    def _row(self, old: Row, kept: int) -> Row:
        """Return the certificate of an image whose class wins, or does not lose, so many copies."""
        share, noise = self.update.share(self.old.failure), self.classifier.noise
        radius = self.update.radius(old.radius, kept, share, noise)
        counts = {old.prediction: kept} if kept else {}
        prediction = old.prediction if radius >= 0 else ABSTAIN
        samples = 2 * self.update.samples
        return replace(old, prediction=prediction, radius=max(radius, 0.0), samples=samples, counts=counts)

    def _hits(
        self, asked: Certification, indices: Sequence[int], workers: int, executor: Executor | None
    ) -> Generator[Any, None, None]:
        """Ask one of the functions, for every image, which of the shared copies the old class wins."""
        known, stage = self.old.rows, PAIRED + self.old.links

        def begin(position: int) -> Program[Any]:
            index = indices[position]
            question = Hits(stage, 0, self._copies(index), known[index].prediction)
            return Program(
                self.samples.sample(index)[0], NoiseAddress(self.seed, index, stream=self.stream), _answer(question)
            )

        return run_programs(asked.classifier, begin, len(indices), workers, executor, self.target)


def _answer(*questions: Hits) -> Generator[Hits, Any, Any]:
    answer = None
    for question in questions:
        answer = yield question
    return answer


def open_update(config: CertificationConfig, old: OldCertificates, run: Run | None = None) -> UpdateCertification:
    """Open the new and the old weights on the images of the old certificates.

    Of the configuration, the run, the engine, the data and the certifier are used; the rest is that of the old file.
    """
    header = old.file.header
    if not isinstance(config.certifier, Update):
        raise ParameterError(f"the certifier {config.certifier.name!r} does not start from certificates", "certifier")
    update = config.certifier
    update.share(old.failure)
    part, other = named_in(old.run, header)
    table = dict(header["noise"])
    config = replace(
        config,
        noise=noises.create(table.pop("name"), **table),
        seed=header["seed"],
        every=header["every"],
        max_images=header.get("most"),
        split=part,
        dataset=other,
    )
    before = open_certification(
        replace(config, run=old.run.path, engine=header["engine"], batch_size=stated_batch_size(header)), old.run
    )
    new = open_certification(config, run)
    _check_same(old, before, new)
    labels = {"label_known": True} if old.label_known else {}
    facts = {**new.facts, **labels, FROM: old.describe(run or Run(config.run, config.trust))}
    fields = {name: getattr(new, name) for name in Certification.__dataclass_fields__}
    return UpdateCertification(**{**fields, "facts": facts}, old=old, before=before, update=update)


def _check_same(old: OldCertificates, before: Certification, new: Certification) -> None:
    """Refuse other images or classes, and old weights that do not run as they were certified."""
    header, noise = old.file.header, new.classifier.noise
    if noise.stream is None:
        raise RunError(f"the noise {noise.name!r} draws other copies for another batch size: certify from the start")
    if new.header["data"] != header["data"] or before.header["data"] != header["data"]:
        raise RunError(f"{old.path} is about other images than these: name the data that it was made with")
    if (new.classifier.classes, new.classifier.names) != (before.classifier.classes, before.classifier.names):
        raise RunError(f"{old.run.path} has other classes than the new weights: certify these from the start")
    if before.header["artefact"] != header.get("artefact"):
        raise RunError(f"the files of the engine {header['engine']!r} in {old.run.path} have changed: restore them")
    difference = recorded_difference(header, before.function, environment_of(before.classifier))
    if difference:
        raise RunError(f"{old.path} was made with {difference}: an update needs the function that was certified")


def certify_update(
    config: CertificationConfig,
    old: OldCertificates,
    *,
    run: Run | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    on_image: OnImage = lambda *_: None,
    on_estimate: OnEstimate | None = None,
) -> Path:
    """Certify the images of old certificates for the weights of a run; return the certificate file.

    The parameters are those of `certify_run`.
    """
    run = run or Run(config.run, config.trust)
    workers = counted_workers(workers, run)
    config, target = for_workers(config, run, workers, executor)
    certification = replace(open_update(config, old, run), target=target)
    chosen, environment = certification.chosen, environment_of(certification.classifier)
    with resume.open_file(run, certification.request(chosen), environment) as file:
        with events.working(run.path, "certify", file=file.path.name, images=len(chosen)):
            certify_missing(certification, file, chosen, workers, executor, on_image, on_estimate)
        keep_pictures(file.path, file.rows(), certification.samples)
    return file.path

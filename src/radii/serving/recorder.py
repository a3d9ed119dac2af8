"""Record requests and answers in the evidence, before they go on: nobody sees an answer that is not on the disk."""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from radii.serving.budget import AskedIndex, share_of
from radii.serving.evidence import INDEX, EvidenceError, EvidenceLog, seal
from radii.serving.request import FailedError, Request
from radii.smoothing.certificate import Certificate

if TYPE_CHECKING:
    from radii.serving.model import ServedModel

LOG = logging.getLogger("radii.serving")
BATCH = 1_000
"""Records that share one write to the disk, at most."""
LATELY = 0.95
"""The factor by which `Recorder.seconds` falls after every shorter write."""


@dataclass(frozen=True, eq=False)
class Job:
    """A record to write, and what to do after it."""

    record: Callable[[AskedIndex], Mapping[str, Any]]
    """Returns the record; it may count a question."""
    done: Callable[[str | None], object]
    """Called when the record is on the disk, with the digest of its line; None without evidence."""
    fail: Callable[[FailedError], object]
    """Called if the record cannot be written, or if `done` fails."""


class Recorder:
    """Writes records in a thread of its own, many at once. Without evidence it only counts questions."""

    def __init__(self, evidence: EvidenceLog | None, model: "ServedModel") -> None:
        self._evidence = evidence
        self._own_index = AskedIndex() if evidence is None else None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.seconds = 0.005
        """How long a write may take: the longest of the last ones, so that an answer is in time."""
        if evidence is not None:
            evidence.append([{"kind": "opened", "format": 1, **_model_table(model)}])
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def close(self) -> None:
        """Write the records in the queue, and end."""
        self._jobs.put(None)
        self._thread.join()
        if self._own_index is not None:
            self._own_index.close()

    def _run(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while len(jobs) < BATCH:
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            began = time.monotonic()
            self._write([job for job in jobs if job is not None])
            self.seconds = max(time.monotonic() - began, LATELY * self.seconds)
            if None in jobs:
                return

    def _write(self, jobs: list[Job]) -> None:
        """Write the records of some jobs, and let these go on or fail."""
        try:
            digests = self._append(jobs)
        except (OSError, sqlite3.Error, EvidenceError) as error:
            LOG.error("the evidence cannot be written: %s", _reason(error))
            self._forget()
            for job in jobs:
                job.fail(FailedError("the evidence cannot be written", temporary=True))
            return
        for job, digest in zip(jobs, digests, strict=True):
            try:
                job.done(digest)
            except OSError as error:
                LOG.error("the picture cannot be kept: %s", _reason(error))
                job.fail(FailedError("the evidence cannot be written", temporary=True))
            except Exception:
                LOG.exception("a request failed")
                job.fail(FailedError("the server failed"))

    def _append(self, jobs: list[Job]) -> list[str | None]:
        """Count the questions of some jobs and append their records; return the digests of the lines."""
        if self._evidence is None:
            assert self._own_index is not None
            for job in jobs:
                job.record(self._own_index)
            self._own_index.keep()
            return [None] * len(jobs)
        records = [job.record(self._evidence.index) for job in jobs]
        return [*self._evidence.append(records)] if records else []

    def _forget(self) -> None:
        """Forget the questions of a batch that was not recorded."""
        if self._evidence is not None:
            self._evidence.count_again()
        elif self._own_index is not None:
            self._own_index.forget()


def _reason(error: Exception) -> str:
    """Return why something cannot be written, with the file; clients are not told, the log is."""
    if isinstance(error, sqlite3.Error):
        return f"{INDEX}: {error}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def sealed_record(request: Request, index: AskedIndex) -> dict[str, Any]:
    """Count the question, give the request its share of the failure probability, and return its record."""
    model = request.model
    if model.failure is not None:
        request.asked = index.ask(request.picture, model.weights, model.failure)
        request.failure = model.failure * share_of(request.asked)
        request.failure_over_life = index.failure_over_life(request.picture, model.weights)
    return {
        "kind": "sealed",
        "id": request.id,
        "picture": request.picture,
        "weights": model.weights,
        "header_digest": model.header_digest,
        "asked": request.asked,
        "failure": request.failure,
        "sealed_seed": seal(request.seed),
    }


def answer_record(request: Request, certificate: Certificate, stopped: bool, _: AskedIndex) -> dict[str, Any]:
    """Return the record of an answer, which reveals the seed."""
    return {
        "kind": "answer",
        "id": request.id,
        "prediction": certificate.prediction,
        "radius": certificate.radius,
        "samples": certificate.samples,
        "counts": {str(label): votes for label, votes in enumerate(certificate.counts) if votes},
        "stopped": stopped,
        "seed": f"{request.seed:032x}",
    }


def failed_record(request: Request, _: AskedIndex) -> dict[str, Any]:
    """Return the record of a request that the model could not answer."""
    return {"kind": "failed", "id": request.id}


def exchanged_record(model: "ServedModel", _: AskedIndex) -> dict[str, Any]:
    """Return the record of another model."""
    return {"kind": "exchanged", **_model_table(model)}


def _model_table(model: "ServedModel") -> dict[str, Any]:
    """Return everything that determines the answers of a model, with its digest."""
    return {"header_digest": model.header_digest, "header": model.header}

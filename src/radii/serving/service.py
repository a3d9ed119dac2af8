"""Answer requests about pictures; their questions share forward passes.

A request is a program that asks questions (see `radii.certifiers`). Its way through the service:

    submit -> number and sealed seed are written -> voters answer its questions -> answer is written -> future

Voters are threads. Each takes questions for one forward pass from the requests in flight: those with few samples
first, and the oldest of these first. So a picture near its threshold, which needs many samples, does not hold up
others. At its deadline a request ends with what is proven by then.
"""

import logging
import math
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from torch import Tensor

from radii.certifiers.base import TimeUp
from radii.device import default_workers, keep_freed_memory
from radii.engines import check_image
from radii.serving.answer import Answer
from radii.serving.budget import AskedIndex, share_of
from radii.serving.evidence import EvidenceError, EvidenceLog, picture_digest, seal
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.questions import Question, Task
from radii.workers.voter import one_thread

if TYPE_CHECKING:
    from radii.serving.model import ServedModel, Steps

LOG = logging.getLogger("radii.serving")
QUANTUM = 1_024
"""Samples after which a request gives way to others; then twice as many, and so on."""
MARGIN = 0.01
"""Seconds kept before a deadline for writing and sending the answer."""
BATCH = 1_000
"""Records that share one write to the disk, at most."""

Progress = Callable[[int, Mapping[int, int]], None]
"""Called with the samples and the votes by class so far."""


class BusyError(Exception):
    """The queue is full, or so it is with another limit; `seconds` is when to try again."""

    def __init__(self, seconds: int, message: str = "the queue is full") -> None:
        super().__init__(message)
        self.seconds = seconds


class FailedError(Exception):
    """The request could not be answered; the log says why. If it is `temporary`, it may be tried again."""

    def __init__(self, message: str, *, temporary: bool = False) -> None:
        super().__init__(message)
        self.temporary = temporary


def _started() -> "Future[Answer]":
    """Return a future that cannot be cancelled: a started answer is recorded even if nobody waits for it."""
    future: Future[Answer] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(eq=False)
class _Request:
    """A request in flight."""

    number: int
    model: "ServedModel"
    image: Tensor
    picture: str
    arrived: float
    deadline: float
    progress: Progress | None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    future: "Future[Answer]" = field(default_factory=_started)
    seed: int = field(default_factory=lambda: secrets.randbits(128))
    asked: int | None = None
    failure: float | None = None
    failure_over_life: float | None = None
    steps: "Steps | None" = None
    question: Question | None = None
    """The question being answered; None when there is none."""
    handed_out: int = 0
    """Copies of the question that voters have taken."""
    parts: dict[int, Any] = field(default_factory=dict)
    """Answers by the first copy of their piece."""
    missing: int = 0
    """Copies of the question without an answer."""
    advancing: bool = True
    """Whether a thread runs the program now; others leave it alone."""
    samples: int = 0
    """Copies of the questions that are answered completely."""
    ended: bool = False

    @property
    def urgency(self) -> tuple[int, int]:
        return (self.samples // QUANTUM).bit_length(), self.number

    def lapses_at(self, now: float, ahead: float) -> bool:
        """Tell whether the deadline is within `ahead` seconds; never before half of the request's time has passed."""
        return self.deadline - now <= min(ahead, (self.deadline - self.arrived) / 2)

    def piece(self, rows: int) -> Question | None:
        """Return the next piece of the question, a block of at most `rows` copies; None if all are handed out."""
        question = self.question
        if question is None or self.handed_out >= question.count:
            return None
        most = min(rows, question.count - self.handed_out)
        return replace(question, first=question.first + self.handed_out, count=most)


class Service:
    """Answers requests with a model that can be exchanged; the core of a server, without HTTP.

    `evidence` records answers; without it the failure probability of a picture is shared over the life of this object.
    """

    def __init__(
        self,
        model: "ServedModel",
        *,
        evidence: EvidenceLog | None = None,
        keep_pictures: bool = False,
        queue_limit: int = 256,
        deadline: float | None = None,
        workers: int | None = None,
    ) -> None:
        self.model = model
        self.evidence = evidence
        self.keep_pictures = keep_pictures and evidence is not None
        self.queue_limit = queue_limit
        self.deadline = deadline
        self.passes = self.rows = self.samples = 0
        """Forward passes, copies in them that were asked for, and samples of finished requests."""
        self._own_index = AskedIndex() if evidence is None else None
        self._numbers = count()
        self._in_flight: set[_Request] = set()
        self._pool: list[_Request] = []
        self._ready = threading.Condition()
        self._pass_seconds = self._record_seconds = 0.005
        """How long a forward pass and the record of an answer take, lately."""
        self._last_answer = time.monotonic()
        self._interval = 0.01
        self._closing = False
        self._records: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        keep_freed_memory()
        self._write({"kind": "opened", "format": 1}, model)
        self._recorder = threading.Thread(target=self._record, name="recorder", daemon=True)
        self._recorder.start()
        self._voters = [
            threading.Thread(target=self._vote, name=f"voter {number}", daemon=True)
            for number in range(workers or default_workers())
        ]
        self._voters.append(threading.Thread(target=self._watch, name="watch", daemon=True))
        for voter in self._voters:
            voter.start()

    # What callers use

    def submit(
        self,
        images: Sequence[Tensor],
        *,
        model: "ServedModel | None" = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> "list[Future[Answer]]":
        """Ask about pictures [channel, height, width] with pixels in [0, 1]; raise a BusyError if the queue is full.

        `model` is the one that the pictures were prepared for, which a reload may have exchanged since; by default
        the present one. `deadline` is a moment of `time.monotonic`; by default the service's deadline from now on.
        """
        model = model or self.model
        for image in images:
            check_image(image)
            if tuple(image.shape) != model.shape:
                raise ValueError(f"the picture has shape {list(image.shape)}, expected {list(model.shape)}")
        now = time.monotonic()
        if deadline is None:
            deadline = math.inf if self.deadline is None else now + self.deadline
        # + 0.0 turns -0.0 into 0.0: equal pictures need equal digests, by which questions are counted.
        pixels = [image.detach().float().contiguous() + 0.0 for image in images]
        pictures = [picture_digest(image.numpy()) for image in pixels]
        with self._ready:
            if self._closing:
                raise FailedError("the service is stopping", temporary=True)
            if len(self._in_flight) + len(images) > self.queue_limit:
                raise BusyError(self._seconds_to_wait())
            requests = [
                _Request(next(self._numbers), model, image, picture, now, deadline, progress)
                for image, picture in zip(pixels, pictures, strict=True)
            ]
            self._in_flight.update(requests)
        for request in requests:
            self._records.put(_Job(request, None))
        return [request.future for request in requests]

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def exchange(self, model: "ServedModel") -> "Future[None]":
        """Answer new requests with another model; those in flight keep theirs.

        The future has no result until then, or a FailedError if the model could not be recorded.
        """
        exchanged: Future[None] = Future()
        exchanged.set_running_or_notify_cancel()
        self._records.put(_Job(None, None, model, exchanged=exchanged))
        return exchanged

    def close(self) -> None:
        """Answer what is in flight, and end the threads."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()
        while self._in_flight:
            time.sleep(0.005)
        self._records.put(None)
        self._recorder.join()
        with self._ready:
            self._ready.notify_all()
        for voter in self._voters:
            voter.join()
        if self._own_index is not None:
            self._own_index.close()

    def _seconds_to_wait(self) -> int:
        """Return about how long the requests in flight take, from the time between the last answers."""
        return min(60, math.ceil(self._interval * len(self._in_flight)))

    # Voting, in the voters' threads

    def _vote(self) -> None:
        with one_thread():
            while (pieces := self._take()) is not None:
                self._count(pieces)

    def _take(self) -> "list[tuple[_Request, Question]] | None":
        """Wait for questions and take pieces of one forward pass; None when the service has ended."""
        with self._ready:
            while not (pieces := self._pieces()):
                if self._closing and not self._in_flight:
                    return None
                self._ready.wait()
        return pieces

    def _pieces(self) -> "list[tuple[_Request, Question]]":
        pieces: list[tuple[_Request, Question]] = []
        left, now = 0, time.monotonic()
        for request in sorted(self._pool, key=lambda request: request.urgency):
            if not pieces:
                left = request.model.classifier.batch_size
            elif request.model is not pieces[0][0].model:
                continue
            piece = request.piece(request.model.classifier.batch_size)
            if piece is None or piece.count > left or request.lapses_at(now, self._pass_seconds):
                continue
            request.handed_out += piece.count
            pieces.append((request, piece))
            left -= piece.count
            if not left:
                break
        return pieces

    def _watch(self) -> None:
        """End requests at their deadlines, also while the voters are in the middle of a forward pass."""
        while True:
            with self._ready:
                now = time.monotonic()
                waiting = [request for request in self._pool if not request.advancing]
                expired = [request for request in waiting if request.lapses_at(now, self._record_seconds + MARGIN)]
                for request in expired:
                    self._leave(request)
                if not expired:
                    if self._closing and not self._in_flight:
                        return
                    nearest = min((request.deadline for request in waiting), default=math.inf)
                    left = nearest - now - self._record_seconds - MARGIN
                    self._ready.wait(None if nearest == math.inf else max(0.001, left))
            for request in expired:
                self._end_early(request)

    def _leave(self, request: _Request) -> None:
        request.ended = True
        self._pool.remove(request)

    def _count(self, pieces: "list[tuple[_Request, Question]]") -> None:
        """Run a forward pass, and pass its answers to their requests."""
        began = time.monotonic()
        model = pieces[0][0].model
        tasks = [Task(request.image, NoiseAddress(request.seed), piece) for request, piece in pieces]
        try:
            answers = model.classifier.count(tasks)
        except Exception as error:  # whatever a model raises
            LOG.exception("the model failed")
            with self._ready:
                failed = {request for request, _ in pieces if not request.ended}
                for request in failed:
                    self._leave(request)
            for request in failed:
                self._fail(request, error)
            return
        with self._ready:
            self._pass_seconds += 0.2 * (time.monotonic() - began - self._pass_seconds)
            self.passes += 1
            self.rows += sum(piece.count for _, piece in pieces)
        for (request, piece), answer in zip(pieces, answers, strict=True):
            self._receive(request, piece, answer)

    def _receive(self, request: _Request, piece: Question, answer: Any) -> None:
        """Take the answer to a piece; if it was the last of its question, go on to the next question."""
        with self._ready:
            if request.ended:  # at its deadline
                return
            request.parts[piece.first] = answer
            request.missing -= piece.count
            if request.missing:
                return
            question, parts = request.question, request.parts
            assert question is not None
            request.question, request.advancing = None, True
        self._advance(request, question, question.join([parts[first] for first in sorted(parts)]))

    def _advance(self, request: _Request, question: Question | None, answer: Any) -> None:
        """Send a program the answer to its question, and take its next question or its certificate."""
        steps = request.steps
        assert steps is not None
        certificate: Certificate | None = None
        following: Question | None = None
        try:
            if question is not None:
                question.check(answer, request.model.classifier.classes)
                request.samples += question.count
                if request.progress is not None:
                    votes = {label: int(votes) for label, votes in enumerate(answer) if votes}
                    request.progress(question.count, votes)
            following = steps.send(answer)
        except StopIteration as stopped:
            certificate = stopped.value
        except Exception as error:
            LOG.exception("a certifier failed")
            with self._ready:
                self._leave(request)
            self._fail(request, error)
            return
        with self._ready:
            if following is not None:
                request.question, request.missing = following, following.count
                request.handed_out, request.parts, request.advancing = 0, {}, False
                self._ready.notify_all()
                return
            self._leave(request)
        self._records.put(_Job(request, certificate))

    def _end_early(self, request: _Request) -> None:
        """End a request at its deadline with what is proven by then."""
        certificate = Certificate(ABSTAIN, 0.0, request.samples)
        try:
            assert request.steps is not None
            request.steps.throw(TimeUp())
        except StopIteration as stopped:
            certificate = stopped.value
        except TimeUp:
            pass
        except Exception as error:
            LOG.exception("a certifier failed at the deadline")
            self._fail(request, error)
            return
        self._records.put(_Job(request, certificate, stopped=True))

    def _fail(self, request: _Request, error: Exception) -> None:
        self._records.put(_Job(request, None, error=error))

    # Recording, in the recorder's thread

    def _record(self) -> None:
        """Write records, and release requests and answers only after they are on the disk."""
        while True:
            jobs = [self._records.get()]
            while len(jobs) < BATCH:
                try:
                    jobs.append(self._records.get_nowait())
                except queue.Empty:
                    break
            ended = None in jobs
            began = time.monotonic()
            self._record_batch([job for job in jobs if job is not None])
            # The largest of the last ones: a deadline is missed if a record takes longer than expected.
            self._record_seconds = max(time.monotonic() - began, 0.95 * self._record_seconds)
            if ended:
                return

    @property
    def _index(self) -> AskedIndex:
        if self._own_index is not None:
            return self._own_index
        assert self.evidence is not None
        return self.evidence.index

    def _record_batch(self, jobs: "list[_Job]") -> None:
        digests: list[str | None] = [None] * len(jobs)
        try:
            records = [job.record(self) for job in jobs]
            if self.evidence is None:
                self._index.keep()
            elif records:
                digests = [*self.evidence.append(records)]
        except (OSError, sqlite3.Error, EvidenceError) as error:
            LOG.error("the evidence cannot be written: %s", getattr(error, "strerror", None) or error)
            self._forget()
            for job in jobs:
                job.fail(self, FailedError("the evidence cannot be written", temporary=True))
            return
        for job, digest in zip(jobs, digests, strict=True):
            try:
                job.done(self, digest)
            except OSError as error:
                LOG.error("the picture cannot be kept: %s", error.strerror or error)
                job.fail(self, FailedError("the evidence cannot be written", temporary=True))
            except Exception:
                LOG.exception("a request failed")
                job.fail(self, FailedError("the server failed"))

    def _forget(self) -> None:
        """Forget the questions of a batch that was not recorded."""
        if self.evidence is not None:
            self.evidence.count_again()
        elif self._own_index is not None:
            self._own_index.forget()

    def _write(self, record: Mapping[str, Any], model: "ServedModel") -> None:
        """Write a record with the header of the model's answers."""
        if self.evidence is not None:
            stated = {"header_digest": model.header_digest, "header": model.header}
            self.evidence.append([{**record, **stated}])

    def _number(self, request: _Request) -> None:
        """Count how often the picture was asked about, and give the request its share of the failure probability."""
        model = request.model
        if model.failure is not None:
            request.asked = self._index.ask(request.picture, model.weights, model.failure)
            request.failure = model.failure * share_of(request.asked)
            request.failure_over_life = self._index.failure_over_life(request.picture, model.weights)

    def _start(self, request: _Request) -> None:
        """Let a numbered request ask its first question."""
        if self.keep_pictures and self.evidence is not None:
            self.evidence.keep_picture(request.picture, request.image.numpy())
        request.steps = request.model.steps(request.failure)
        if request.steps is None:  # asked so often that no sample can prove anything
            request.ended = True
            self._records.put(_Job(request, Certificate(ABSTAIN, 0.0, 0)))
            return
        with self._ready:
            self._pool.append(request)
        self._advance(request, None, None)

    def _give_answer(self, request: _Request, certificate: Certificate, stopped: bool, digest: str | None) -> None:
        """Return a recorded answer through the request's future."""
        seconds = time.monotonic() - request.arrived
        self.samples += certificate.samples
        now = time.monotonic()
        self._interval += 0.1 * (min(now - self._last_answer, 1.0) - self._interval)
        self._last_answer = now
        self._finish(
            request,
            Answer(
                request.id,
                request.model,
                certificate,
                request.picture,
                request.asked,
                request.failure,
                request.failure_over_life,
                stopped,
                seal(request.seed),
                digest,
                seconds,
            ),
        )

    def _give_up(self, request: _Request) -> None:
        """Raise a FailedError through the request's future."""
        self._finish(request, FailedError("the model could not answer"))

    def _finish(self, request: _Request, outcome: "Answer | Exception") -> None:
        with self._ready:
            self._in_flight.discard(request)
            if not self._in_flight:
                self._ready.notify_all()
        if isinstance(outcome, Exception):
            request.future.set_exception(outcome)
        else:
            request.future.set_result(outcome)


@dataclass(frozen=True, eq=False)
class _Job:
    """A record to write: a new request, an answer, a failure, or another model."""

    request: _Request | None
    certificate: Certificate | None
    model: "ServedModel | None" = None
    stopped: bool = False
    error: Exception | None = None
    exchanged: "Future[None] | None" = None

    def record(self, service: Service) -> dict[str, Any]:
        """Return the line for the evidence."""
        request, certificate = self.request, self.certificate
        if request is None:
            assert self.model is not None
            return {
                "kind": "exchanged",
                "header_digest": self.model.header_digest,
                "header": self.model.header,
            }
        if self.error is not None:
            return {"kind": "failed", "id": request.id}
        if certificate is None:
            service._number(request)
            return {
                "kind": "sealed",
                "id": request.id,
                "picture": request.picture,
                "weights": request.model.weights,
                "header_digest": request.model.header_digest,
                "asked": request.asked,
                "failure": request.failure,
                "sealed_seed": seal(request.seed),
            }
        return {
            "kind": "answer",
            "id": request.id,
            "prediction": certificate.prediction,
            "radius": certificate.radius,
            "samples": certificate.samples,
            "counts": {str(label): votes for label, votes in enumerate(certificate.counts) if votes},
            "stopped": self.stopped,
            "seed": f"{request.seed:032x}",
        }

    def done(self, service: Service, digest: str | None) -> None:
        """Continue after the record is on the disk."""
        request = self.request
        if request is None:
            assert self.model is not None
            service.model = self.model
            if self.exchanged is not None:
                self.exchanged.set_result(None)
        elif self.error is not None:
            service._give_up(request)
        elif self.certificate is None:
            service._start(request)
        else:
            service._give_answer(request, self.certificate, self.stopped, digest)

    def fail(self, service: Service, error: FailedError) -> None:
        """Pass on that the record could not be written, or what follows it could not be done."""
        if self.request is not None:
            service._finish(self.request, error)
        elif self.exchanged is not None:
            self.exchanged.set_exception(error)

"""Answer requests about pictures; their questions share forward passes.

A request is a program that asks questions (see `radii.certifiers`). Its way through the service:

    submit -> number and sealed seed are written -> voters answer its questions -> answer is written -> future

Voters are threads. Each takes questions for one forward pass from the requests in flight: those with few samples
first, and the oldest of these first. So a picture near its threshold, which needs many samples, does not hold up
others. At its deadline a request ends with what is proven by then.
"""

import logging
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from torch import Tensor

from radii.certifiers.base import TimeUp
from radii.device import default_workers, keep_freed_memory
from radii.engines import check_image
from radii.serving.answer import Answer
from radii.serving.evidence import EvidenceLog, picture_digest, seal
from radii.serving.recorder import Job, Recorder, answer_record, exchanged_record, failed_record, sealed_record
from radii.serving.request import BusyError, FailedError, Progress, Request, running_future
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.questions import Question, Task
from radii.workers.voter import one_thread

if TYPE_CHECKING:
    from radii.serving.model import ServedModel

LOG = logging.getLogger("radii.serving")
MARGIN = 0.01
"""Seconds kept before a deadline for writing and sending the answer."""

Pieces = list[tuple[Request, Question]]
"""Blocks of questions for one forward pass, with their requests."""


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
        self._numbers = count()
        self._in_flight: set[Request] = set()
        self._pool: list[Request] = []
        """Requests that ask questions."""
        self._ready = threading.Condition()
        self._pass_seconds = 0.005
        """How long a forward pass takes, lately."""
        self._last_answer = time.monotonic()
        self._interval = 0.01
        """Seconds between two answers, lately."""
        self._closing = False
        keep_freed_memory()
        self._recorder = Recorder(evidence, model)
        self._threads = [
            threading.Thread(target=self._vote, name=f"voter {number}", daemon=True)
            for number in range(workers or default_workers(model.classifier.device))
        ]
        self._threads.append(threading.Thread(target=self._watch, name="watch", daemon=True))
        for thread in self._threads:
            thread.start()

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
                raise BusyError(min(60, math.ceil(self._interval * len(self._in_flight))))
            requests = [
                Request(next(self._numbers), model, image, picture, now, deadline, progress)
                for image, picture in zip(pixels, pictures, strict=True)
            ]
            self._in_flight.update(requests)
        for request in requests:
            begin, fail = partial(self._begin, request), partial(self._finish, request)
            self._recorder.put(Job(partial(sealed_record, request), begin, fail))
        return [request.future for request in requests]

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return len(self._in_flight)

    def exchange(self, model: "ServedModel") -> "Future[None]":
        """Answer new requests with another model; those in flight keep theirs.

        The future has no result until then, or a FailedError if the model could not be recorded.
        """
        exchanged: Future[None] = running_future()

        def use(_: str | None) -> None:
            self.model = model
            exchanged.set_result(None)

        self._recorder.put(Job(partial(exchanged_record, model), use, exchanged.set_exception))
        return exchanged

    def close(self) -> None:
        """Answer what is in flight, and end the threads."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()
        while self._in_flight:
            time.sleep(0.005)
        self._recorder.close()
        with self._ready:
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()

    # Voting, in the voters' threads

    def _vote(self) -> None:
        with one_thread():
            while (pieces := self._take()) is not None:
                self._count(pieces)

    def _take(self) -> Pieces | None:
        """Wait for questions and take pieces of one forward pass; None when the service has ended."""
        with self._ready:
            while not (pieces := self._pieces()):
                if self._closing and not self._in_flight:
                    return None
                self._ready.wait()
        return pieces

    def _pieces(self) -> Pieces:
        pieces: Pieces = []
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

    def _count(self, pieces: Pieces) -> None:
        """Run a forward pass, and pass its answers to their requests."""
        began = time.monotonic()
        model = pieces[0][0].model
        tasks = [Task(request.image, NoiseAddress(request.seed), piece) for request, piece in pieces]
        try:
            answers = model.classifier.count(tasks)
        except Exception:  # whatever a model raises
            LOG.exception("the model failed")
            with self._ready:
                failed = {request for request, _ in pieces if not request.ended}
                for request in failed:
                    self._leave(request)
            for request in failed:
                self._fail(request)
            return
        with self._ready:
            self._pass_seconds += 0.2 * (time.monotonic() - began - self._pass_seconds)
            self.passes += 1
            self.rows += sum(piece.count for _, piece in pieces)
        for (request, piece), votes in zip(pieces, answers, strict=True):
            with self._ready:
                answered = request.receive(piece, votes)
            if answered is not None:
                self._advance(request, *answered)

    def _advance(self, request: Request, question: Question | None, votes: Any) -> None:
        """Send a program the votes on its question, and take its next question or its certificate."""
        steps = request.steps
        assert steps is not None
        certificate: Certificate | None = None
        following: Question | None = None
        try:
            if question is not None:
                question.check(votes, request.model.classifier.classes)
                request.samples += question.count
                if request.progress is not None:
                    request.progress(question.count, {label: int(count) for label, count in enumerate(votes) if count})
            following = steps.send(votes)
        except StopIteration as stopped:
            certificate = stopped.value
        except Exception:
            LOG.exception("a certifier failed")
            with self._ready:
                self._leave(request)
            self._fail(request)
            return
        with self._ready:
            if following is not None:
                request.ask(following)
                self._ready.notify_all()
                return
            self._leave(request)
        assert certificate is not None
        self._answer(request, certificate)

    def _leave(self, request: Request) -> None:
        request.ended = True
        self._pool.remove(request)

    # Deadlines, in the watch's thread

    def _watch(self) -> None:
        """End requests at their deadlines, also while the voters are in the middle of a forward pass."""
        while True:
            with self._ready:
                ahead = self._recorder.seconds + MARGIN
                now = time.monotonic()
                waiting = [request for request in self._pool if not request.advancing]
                expired = [request for request in waiting if request.lapses_at(now, ahead)]
                for request in expired:
                    self._leave(request)
                if not expired:
                    if self._closing and not self._in_flight:
                        return
                    nearest = min((request.deadline for request in waiting), default=math.inf)
                    self._ready.wait(None if nearest == math.inf else max(0.001, nearest - now - ahead))
            for request in expired:
                self._end_early(request)

    def _end_early(self, request: Request) -> None:
        """End a request at its deadline with what is proven by then."""
        certificate = Certificate(ABSTAIN, 0.0, request.samples)
        try:
            assert request.steps is not None
            request.steps.throw(TimeUp())
        except StopIteration as stopped:
            certificate = stopped.value
        except TimeUp:
            pass
        except Exception:
            LOG.exception("a certifier failed at the deadline")
            self._fail(request)
            return
        self._answer(request, certificate, stopped=True)

    # Before and after the records of a request, in the recorder's thread

    def _begin(self, request: Request, _: str | None) -> None:
        """Let a recorded request ask its first question."""
        if self.keep_pictures and self.evidence is not None:
            self.evidence.keep_picture(request.picture, request.image.numpy())
        request.steps = request.model.steps(request.failure)
        if request.steps is None:  # asked so often that no sample can prove anything
            request.ended = True
            self._answer(request, Certificate(ABSTAIN, 0.0, 0))
            return
        with self._ready:
            self._pool.append(request)
        self._advance(request, None, None)

    def _answer(self, request: Request, certificate: Certificate, stopped: bool = False) -> None:
        """Record an answer and give it; `stopped` if the deadline ended it."""
        record = partial(answer_record, request, certificate, stopped)
        give = partial(self._give, request, certificate, stopped)
        self._recorder.put(Job(record, give, partial(self._finish, request)))

    def _fail(self, request: Request) -> None:
        """Record that the model could not answer, and raise it through the future."""
        finish = partial(self._finish, request)
        failure = FailedError("the model could not answer")
        self._recorder.put(Job(partial(failed_record, request), lambda _: finish(failure), finish))

    def _give(self, request: Request, certificate: Certificate, stopped: bool, digest: str | None) -> None:
        """Return a recorded answer through the request's future."""
        now = time.monotonic()
        self.samples += certificate.samples
        self._interval += 0.1 * (min(now - self._last_answer, 1.0) - self._interval)
        self._last_answer = now
        answer = Answer(
            id=request.id,
            model=request.model,
            certificate=certificate,
            picture=request.picture,
            asked=request.asked,
            failure=request.failure,
            failure_over_life=request.failure_over_life,
            stopped=stopped,
            sealed=seal(request.seed),
            evidence=digest,
            seconds=now - request.arrived,
        )
        self._finish(request, answer)

    def _finish(self, request: Request, outcome: Answer | Exception) -> None:
        """End a request: give its answer or raise its error through the future."""
        with self._ready:
            self._in_flight.discard(request)
            if not self._in_flight:
                self._ready.notify_all()
        if isinstance(outcome, Exception):
            request.future.set_exception(outcome)
        else:
            request.future.set_result(outcome)

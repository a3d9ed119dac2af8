"""A request in flight: a picture, the certifier's present question about it, and the votes that have arrived."""

import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from radii.smoothing.questions import Question

if TYPE_CHECKING:
    from radii.serving.answer import Answer
    from radii.serving.model import ServedModel, Steps

QUANTUM = 1_024
"""Samples after which a request gives way to others; then twice as many, and so on."""

Progress = Callable[[int, Mapping[int, int]], None]
"""Called with the samples and the votes by class of every answered question."""


class BusyError(Exception):
    """The queue or another limit is full; try again after `seconds`."""

    def __init__(self, seconds: int, message: str = "the queue is full") -> None:
        super().__init__(message)
        self.seconds = seconds


class FailedError(Exception):
    """The request could not be answered; the log says why. If it is `temporary`, try again."""

    def __init__(self, message: str, *, temporary: bool = False) -> None:
        super().__init__(message)
        self.temporary = temporary


def running_future() -> "Future[Any]":
    """Return a future that cannot be cancelled: a started answer is recorded even if nobody waits for it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(eq=False)
class Request:
    """A request in flight. The service changes it under its lock."""

    number: int
    model: "ServedModel"
    image: Tensor
    picture: str
    """The digest of the picture."""
    arrived: float
    deadline: float
    progress: Progress | None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    future: "Future[Answer]" = field(default_factory=running_future)
    seed: int = field(default_factory=lambda: secrets.randbits(128))
    asked: int | None = None
    """How often the picture was asked about, this time included; None before the request is recorded."""
    failure: float | None = None
    failure_over_life: float | None = None
    steps: "Steps | None" = None
    question: Question | None = None
    """The question that voters answer now, if any."""
    handed_out: int = 0
    """Copies of the question that voters have taken."""
    votes: dict[int, Any] = field(default_factory=dict)
    """The answers to pieces of the question, by their first copy."""
    missing: int = 0
    """Copies of the question without an answer."""
    advancing: bool = True
    """Whether a thread runs the certifier now; other threads leave the request alone."""
    samples: int = 0
    """Copies of all questions that are answered completely."""
    ended: bool = False

    @property
    def urgency(self) -> tuple[int, int]:
        """The place among other requests: few samples first, then the oldest."""
        return (self.samples // QUANTUM).bit_length(), self.number

    def lapses_at(self, now: float, ahead: float) -> bool:
        """Return whether the deadline is within `ahead` seconds; False while less than half of the time has passed."""
        return self.deadline - now <= min(ahead, (self.deadline - self.arrived) / 2)

    def ask(self, question: Question) -> None:
        """Let voters answer the next question."""
        self.question, self.missing = question, question.count
        self.handed_out, self.votes, self.advancing = 0, {}, False

    def piece(self, rows: int) -> Question | None:
        """Return the next piece of the question, a block of at most `rows` copies; None if all are handed out."""
        question = self.question
        if question is None or self.handed_out >= question.count:
            return None
        count = min(rows, question.count - self.handed_out)
        return replace(question, first=question.first + self.handed_out, count=count)

    def receive(self, piece: Question, votes: Any) -> tuple[Question, Any] | None:
        """Take the votes of a piece; after the last piece, return the question with all of its votes."""
        if self.ended:  # at its deadline
            return None
        assert self.question is not None
        self.votes[piece.first] = votes
        self.missing -= piece.count
        if self.missing:
            return None
        question, self.question, self.advancing = self.question, None, True
        return question, question.join([self.votes[first] for first in sorted(self.votes)])

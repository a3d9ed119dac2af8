"""Votes by blocks: an attempt at a certificate within a budget, and a share of the votes that it asks for.

The noise of every block has an address, so votes are the same sums whoever computes which blocks; a certificate does
not depend on how its votes were shared out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.certifiers.base import Voter
from radii.runs.certificates import Row
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Noise
from radii.workers.session import Item, Session

Votes = NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """Votes that a certifier asks for: those of some samples from a block of a stage on."""

    stage: int
    first_block: int
    samples: int

    def shares(self, size: int, batch_size: int) -> "list[Request]":
        """The same samples in shares of whole blocks, about `size` samples each; the last one may be shorter."""
        blocks = -(-self.samples // batch_size)
        count = min(blocks, -(-self.samples // size))
        bounds = [number * blocks // count for number in range(count + 1)]
        return [
            Request(self.stage, self.first_block + low, min(high * batch_size, self.samples) - low * batch_size)
            for low, high in pairwise(bounds)
        ]


@dataclass(frozen=True)
class Unfinished:
    """An attempt that was interrupted: the votes so far, and those that it asks for next."""

    known: Mapping[Request, Votes]
    request: Request


@dataclass(frozen=True)
class Attempt:
    """Certify an item, given votes that are known; a request beyond the budget interrupts it if it can be shared."""

    known: Mapping[Request, Votes]
    budget: float
    least: int
    """Requests of at most so many samples are never handed back."""

    def __call__(self, session: Session[Item], item: Item) -> Row | Unfinished:
        voter = _Metered(session.classifier, self)
        try:
            return session.certify(item, voter)
        except _InterruptedError as interrupted:
            return Unfinished(voter.known, interrupted.request)


@dataclass(frozen=True)
class Share:
    """Compute the votes of one request."""

    request: Request

    def __call__(self, session: Session[Item], item: Item) -> Votes:
        try:
            session.certify(item, _Once(session.classifier, self.request))
        except _AnsweredError as answered:
            return answered.votes
        raise AssertionError("a certifier that asked for votes did not ask again")


class _InterruptedError(Exception):
    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.request = request


class _AnsweredError(Exception):
    def __init__(self, votes: Votes) -> None:
        super().__init__(votes)
        self.votes = votes


class _Voter:
    """A voter with the facts of another one."""

    def __init__(self, classifier: Voter) -> None:
        self.classifier = classifier

    @property
    def noise(self) -> Noise:
        return self.classifier.noise

    @property
    def classes(self) -> int:
        return self.classifier.classes

    @property
    def batch_size(self) -> int:
        return self.classifier.batch_size

    def probabilities(
        self, image: Any, samples: int, noise: NoiseAddress, sharpness: float = 1.0
    ) -> Iterator[NDArray[np.float64]]:
        return self.classifier.probabilities(image, samples, noise, sharpness)


class _Metered(_Voter):
    """Repeats the votes that are known, and computes others as long as the budget lasts."""

    def __init__(self, classifier: Voter, attempt: Attempt) -> None:
        super().__init__(classifier)
        self.known = dict(attempt.known)
        self.left = attempt.budget
        self.least = attempt.least

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> Votes:
        request = Request(noise.stage, noise.first_block, samples)
        if request not in self.known:
            if samples > max(self.left, self.least):
                raise _InterruptedError(request)
            self.left -= samples
            self.known[request] = self.classifier.votes(image, samples, noise)
        return self.known[request]


class _Once(_Voter):
    """Answers the first question of a certifier, which tells the image, with the votes of one request."""

    def __init__(self, classifier: Voter, request: Request) -> None:
        super().__init__(classifier)
        self.request = request

    def votes(self, image: Any, samples: int, noise: NoiseAddress) -> Votes:
        wanted = self.request
        address = noise.at(wanted.stage).from_block(wanted.first_block)
        raise _AnsweredError(self.classifier.votes(image, wanted.samples, address))

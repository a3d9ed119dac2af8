"""How certification is spread over workers: which of them computes what never changes a certificate.

A task certifies one image within a budget. An image that takes more comes back with its votes so far and is continued
before others are begun, in parts where the votes that it asks for are more than a task. Tasks get shorter as less is
left, so that the workers end together. The simulation of docs/scaling.md runs this code.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from radii.runs.certificates import Row
from radii.workers.blocks import Attempt, Request, Share, Unfinished, Votes
from radii.workers.crew import Crew, crew_of
from radii.workers.delivery import Delivery
from radii.workers.pace import Pace
from radii.workers.remote import Report
from radii.workers.session import Session


def certificates(
    session: Session[Any], indices: Sequence[int], workers: int, executor: Executor | None
) -> Generator[Row, None, None]:
    """The certificates in the order of the images."""
    if executor is None and (workers == 1 or len(indices) < 2):
        yield from map(session.certify, session.items(indices))
        return
    with closing(crew_of(workers, executor)) as crew:
        yield from Spread(session, indices, crew, workers).rows()


@dataclass
class _Image:
    """An image that is being certified: its votes so far, and the parts of the request under way."""

    position: int
    item: Any
    known: dict[Request, Votes] = field(default_factory=dict)
    request: Request | None = None
    parts: int = 0
    seconds: float = 0.0
    environments: list[dict[str, Any]] = field(default_factory=list)

    @property
    def samples(self) -> int:
        return sum(request.samples for request in self.known)


@dataclass(frozen=True)
class _Task:
    image: _Image
    share: Request | None = None
    """The part of its votes to compute; without one the image is attempted."""


class Spread:
    """Certifies images by a crew."""

    def __init__(self, session: Session[Any], indices: Sequence[int], crew: Crew, workers: int) -> None:
        self._session = session
        self._indices = indices
        self._items = session.items(indices)
        self._delivery = Delivery(session, crew)
        self._waiting = deque(range(len(indices)))
        self._ready: deque[_Task] = deque()
        self._running: dict[int, _Task] = {}
        self._done: dict[int, Row | Exception] = {}
        self._pace = Pace(workers, session.classifier.batch_size)

    def rows(self) -> Generator[Row, None, None]:
        """The rows in the order of the images; an error of an image is raised in its turn."""
        for position in range(len(self._indices)):
            while position not in self._done:
                self._fill()
                ticket, report = self._delivery.next()
                self._collect(self._running.pop(ticket), report)
            row = self._done.pop(position)
            if isinstance(row, Exception):
                raise row
            yield row

    def _fill(self) -> None:
        """Keep two tasks for every worker under way: more would delay the images that come back."""
        while len(self._running) < 2 * self._pace.workers and (self._ready or self._waiting):
            self._submit(self._ready.popleft() if self._ready else self._begin(self._waiting.popleft()))

    def _begin(self, position: int) -> _Task:
        return _Task(_Image(position, self._items[position]))

    def _submit(self, task: _Task) -> None:
        image = task.image
        ticket = self._delivery.submit(f"image {self._indices[image.position]}", image.item, self._job(task))
        self._running[ticket] = task

    def _job(self, task: _Task) -> Callable[[Any, Any], Any]:
        if task.share is not None:
            return Share(task.share)
        image, size = task.image, self._pace.task(len(self._waiting))
        needed = image.request.samples if image.request else 0
        return Attempt(image.known, max(size, needed), self._pace.least())

    def _collect(self, task: _Task, report: Report) -> None:
        found, image = report.found, task.image
        if not report.good:
            self._done[image.position] = found
        else:
            before = image.samples
            self._note(image, report)
            self._take(task, found)
            spent = task.share.samples if task.share else _spent(found) - before
            self._pace.worked(report.worker, spent, report.seconds)

    def _take(self, task: _Task, found: Any) -> None:
        image = task.image
        if task.share is None:
            self._advance(image, found)
        else:
            assert image.request is not None
            image.known[image.request] = image.known.get(image.request, 0) + found
            image.parts -= 1
            if not image.parts:
                # No forward pass: all votes up to the next request are known.
                self._advance(image, Attempt(image.known, 0, 0)(self._session, image.item))

    def _advance(self, image: _Image, found: Row | Unfinished) -> None:
        if isinstance(found, Unfinished):
            image.known, image.request = dict(found.known), found.request
            self._pace.demanded(image.position, image.samples + found.request.samples)
            self._continue(image, found.request)
        else:
            self._pace.demanded(image.position, found.samples or 0)
            self._done[image.position] = replace(found, seconds=image.seconds, environments=tuple(image.environments))

    def _continue(self, image: _Image, request: Request) -> None:
        shares = self._pace.shares(request, len(self._waiting))
        if len(shares) == 1:
            self._ready.append(_Task(image))
        else:
            image.parts = len(shares)
            self._ready.extend(_Task(image, share) for share in shares)

    def _note(self, image: _Image, report: Report) -> None:
        image.seconds += report.seconds
        if report.environment not in image.environments:
            image.environments.append(report.environment)


def _spent(found: Row | Unfinished) -> int:
    if isinstance(found, Unfinished):
        return sum(request.samples for request in found.known)
    return found.samples or 0

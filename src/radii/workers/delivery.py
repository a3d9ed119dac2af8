"""Jobs on the items of a session, by a crew: who lacks the session's files is sent them, another radii is refused."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from typing import Any, NamedTuple, Protocol

from radii.workers.crew import Crew, crew_of, expect_same_version
from radii.workers.pool import Call, WorkerError
from radii.workers.remote import Missing, Report, work
from radii.workers.session import Shipment, Shippable


class Opened(Protocol):
    """A session, of which other processes open copies."""

    @property
    def config(self) -> Any:
        """What opens the same session elsewhere: it can be pickled, compared and hashed."""

    def items(self, indices: Sequence[int]) -> Sequence[Any]:
        """What a worker needs beside `config` to work on these images."""


class _Order(NamedTuple):
    name: str
    item: Any
    job: Callable[[Any, Any], Any]


class Delivery:
    """Has a crew do jobs; tickets stay the same when a job has to be sent again."""

    def __init__(self, session: Opened, crew: Crew) -> None:
        self._session = session
        self._crew = crew
        self._shipment: Shipment | None = None
        self._orders: dict[int, _Order] = {}
        self._tickets: dict[int, int] = {}
        """The ticket that the caller has for the crew's."""

    def submit(self, name: str, item: Any, job: Callable[[Any, Any], Any]) -> int:
        """Have a job done on an item; an error calls it by its name."""
        order = _Order(name, item, job)
        ticket = self._send(order, None)
        self._orders[ticket] = order
        self._tickets[ticket] = ticket
        return ticket

    def next(self) -> tuple[int, Report]:
        """Wait for a job to be done."""
        while True:
            sent, outcome = self._crew.next()
            ticket, report = self._tickets.pop(sent), outcome.value()
            expect_same_version(report.environment["versions"]["radii"])  # what only rounds otherwise is recorded
            if not isinstance(report.found, Missing):
                del self._orders[ticket]
                return ticket, report
            again = self._send(self._orders[ticket], self._loaded(report.found))
            self._tickets[again] = ticket

    def _send(self, order: _Order, shipment: Shipment | None) -> int:
        item = order.item
        if self._shipment is not None and isinstance(self._session, Shippable):
            item = self._session.sample(item)  # some workers cannot read the images
        return self._crew.submit(Call(order.name, work, (self._session.config, item, order.job, shipment)))

    def _loaded(self, missing: Missing) -> Shipment:
        """The files for a worker that does not have them."""
        if not isinstance(self._session, Shippable):
            raise WorkerError(f"a worker cannot open the session: {missing.reason}", "executor")
        self._shipment = self._shipment or self._session.shipment()
        return self._shipment


def in_order(
    session: Opened, indices: Sequence[int], job: Callable[[Any, Any], Any], workers: int, executor: Executor | None
) -> Generator[Any, None, None]:
    """What a job finds on every image, in their order; an error is raised in its turn."""
    with closing(crew_of(workers, executor)) as crew:
        queue = _Queue(Delivery(session, crew), session.items(indices), indices, job, workers)
        for position in range(len(indices)):
            report = queue.report(position)
            if not report.good:
                raise report.found
            yield report.found


class _Queue:
    """One job for every image; two for each worker are under way."""

    def __init__(
        self,
        delivery: Delivery,
        items: Sequence[Any],
        indices: Sequence[int],
        job: Callable[[Any, Any], Any],
        workers: int,
    ) -> None:
        self._delivery, self._items, self._indices, self._job = delivery, items, indices, job
        self._expected_workers = workers
        self._seen: set[str] = set()
        self._waiting = deque(range(len(indices)))
        self._running: dict[int, int] = {}
        self._done: dict[int, Report] = {}

    def report(self, position: int) -> Report:
        """The report on the image at this position."""
        while position not in self._done:
            self._fill()
            ticket, report = self._delivery.next()
            self._seen.add(report.worker)
            self._done[self._running.pop(ticket)] = report
        return self._done.pop(position)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < 2 * max(self._expected_workers, len(self._seen)):
            position = self._waiting.popleft()
            ticket = self._delivery.submit(f"image {self._indices[position]}", self._items[position], self._job)
            self._running[ticket] = position

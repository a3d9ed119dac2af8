"""How certification is spread over processes: which of them computes what never changes a certificate."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from typing import Protocol

from radii.experiment.certificates import Row
from radii.loops.pool import map_in_processes


class Session(Protocol):
    """An open session: it certifies here, and its task certifies in any process."""

    def certify(self, index: int) -> Row: ...

    def task(self) -> Callable[[int], Row]:
        """The same function, in a form that can be sent to another process."""


def certificates(
    session: Session, indices: Sequence[int], workers: int, executor: Executor | None
) -> Generator[Row, None, None]:
    """The certificates in the order of the images."""
    if executor is not None:
        yield from executor.map(session.task(), indices)
    elif workers == 1 or len(indices) < 2:
        yield from map(session.certify, indices)
    else:
        yield from map_in_processes(session.task(), indices, workers)

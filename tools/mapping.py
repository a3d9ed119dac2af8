"""Map a function over items with the worker processes of radii."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

from radii.workers.pool import Call, Outcome, ProcessPool

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int, name: str = "image"
) -> Iterator[Result]:
    """Yield the results of a function in the order of the items, computed by `workers` processes.

    A worker that dies is replaced and its item is computed again; the third death at one item is a WorkerError. An
    error of the function is raised in the order of the items. The workers end with the iterator or this process.
    """
    with closing(ProcessPool(workers)) as pool:
        tickets = [pool.submit(Call(f"{name} {item}", function, (item,))) for item in items]
        outcomes: dict[int, Outcome] = {}
        for ticket in tickets:
            while ticket not in outcomes:
                done, outcome = pool.next()
                outcomes[done] = outcome
            result: Result = outcomes.pop(ticket).value()
            yield result

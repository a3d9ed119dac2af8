"""Work that is mapped over any executor."""

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from radii.loops.crew import map_work
from radii.loops.pool import WorkerError


def inverse(number: int) -> float:
    return 1 / number


class Refusing(Executor):
    """An executor that has been shut down."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise RuntimeError("cannot schedule new futures after shutdown")


def test_results_are_in_the_order_of_the_items() -> None:
    with ThreadPoolExecutor(3) as pool:
        assert list(map_work(inverse, [4, 2, 1], 1, pool)) == [0.25, 0.5, 1.0]


def test_an_error_is_raised_in_its_turn() -> None:
    with ThreadPoolExecutor(3) as pool:
        results = map_work(inverse, [4, 0, 2], 1, pool)
        assert next(results) == 0.25
        with pytest.raises(ZeroDivisionError):
            next(results)


def test_an_executor_that_fails_is_a_sentence() -> None:
    with pytest.raises(WorkerError, match=r"Refusing failed at image 4 \(RuntimeError: cannot schedule .*is kept"):
        next(map_work(inverse, [4], 1, Refusing(), "image"))


@pytest.mark.slow
def test_without_an_executor_processes_do_the_work() -> None:
    assert list(map_work(inverse, [4, 2, 1], 2)) == [0.25, 0.5, 1.0]

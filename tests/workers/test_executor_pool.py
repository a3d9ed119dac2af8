"""Calls that any executor computes."""

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from radii.errors import RunWarning
from radii.workers import cluster
from radii.workers.cluster import ExecutorPool
from radii.workers.pool import Call, WorkerError


def call(number: int = 4) -> Call:
    return Call(f"image {number}", abs, (-number,))


class Refusing(Executor):
    """An executor that has been shut down."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise RuntimeError("cannot schedule new futures after shutdown")


class Idle(Executor):
    """An executor without workers: its futures end when somebody ends them."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cluster, "SILENCE", 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("always", RunWarning)
        yield


def test_every_call_is_answered_once() -> None:
    with ThreadPoolExecutor(3) as pool, closing(ExecutorPool(pool)) as workers:
        tickets = {workers.submit(call(number)): number for number in range(20)}
        answers = dict(workers.next() for _ in tickets)
    assert {ticket: outcome.value() for ticket, outcome in answers.items()} == tickets


def test_failing_executor_is_an_error_in_one_sentence() -> None:
    with pytest.raises(
        WorkerError, match=r"Refusing failed at image 4 \(RuntimeError: cannot schedule .*rows are saved"
    ):
        ExecutorPool(Refusing()).submit(call())


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_worker_that_ends_itself_does_not_end_this_process(kind: type[BaseException]) -> None:
    idle = Idle()
    workers = ExecutorPool(idle)
    workers.submit(call())
    idle.futures[0].set_exception(kind(0))
    with pytest.raises(WorkerError, match=f"Idle failed at image 4 .*{kind.__name__}"):
        workers.next()


def test_cancelled_call_is_an_error_in_one_sentence() -> None:
    pool = Idle()
    workers = ExecutorPool(pool)
    workers.submit(call())
    pool.futures[0].cancel()
    with pytest.raises(WorkerError, match=r"Idle dropped image 4: it was shut down, or lost its sched.*rows are saved"):
        workers.next()


@pytest.mark.usefixtures("impatient")
def test_silent_workers_are_warned_of_until_one_answers() -> None:
    pool = Idle()
    workers = ExecutorPool(pool)
    ticket = workers.submit(call())
    answer = threading.Timer(0.4, pool.futures[0].set_result, (7,))
    answer.start()
    with pytest.warns(RunWarning, match=r"no worker has answered for 0 s, 1 tasks are waiting: check that") as warned:
        done, outcome = workers.next()
    assert (done, outcome.value()) == (ticket, 7)
    assert 2 <= len(warned) <= 4  # after 0.05, 0.1, 0.2 s, not all the time


@pytest.mark.usefixtures("impatient")
def test_no_warning_while_tasks_take_as_long_as_before() -> None:
    pool = Idle()
    workers = ExecutorPool(pool)
    workers._longest = 1.0
    workers.submit(call())
    threading.Timer(0.2, pool.futures[0].set_result, (7,)).start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        workers.next()


def test_close_cancels_calls_that_are_not_done() -> None:
    pool = Idle()
    with closing(ExecutorPool(pool)) as workers:
        workers.submit(call())
    assert pool.futures[0].cancelled()


class Elsewhere(Executor):
    """Workers whose radii is another one, or missing; it keeps what it was asked."""

    def __init__(self, version: str | Exception) -> None:
        self.version = version
        self.asked: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked.append(fn)
        future: Future[Any] = Future()
        if isinstance(self.version, Exception):
            future.set_exception(self.version)
        else:
            future.set_result(self.version)
        return future


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.0.1", r"a worker runs radii 0.0.1, this is .*: install the same version on every worker"),
        (PackageNotFoundError("radii"), r"failed at the check of the radii version \(PackageNotFoundError: "),
    ],
)
def test_workers_without_this_radii_are_sent_no_work(version: str | Exception, message: str) -> None:
    pool = Elsewhere(version)
    with pytest.raises(WorkerError, match=message):
        ExecutorPool(pool).expect_radii()
    assert pool.asked == [metadata.version]


class Repeating(Executor):
    """An executor whose futures call back twice."""

    class Twice(Future[Any]):
        def add_done_callback(self, fn: Any) -> None:
            super().add_done_callback(fn)
            super().add_done_callback(fn)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self.Twice()
        future.set_result(fn(*args))
        return future


def test_repeated_answers_are_ignored() -> None:
    with closing(ExecutorPool(Repeating())) as pool:
        tickets = [pool.submit(call(number)) for number in range(3)]
        assert [pool.next()[0] for _ in tickets] == tickets

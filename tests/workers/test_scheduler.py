"""The scheduler: results do not depend on how questions are split, bundled, lost or repeated."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.errors import ParameterError
from radii.runs import certificates
from radii.runs.run import Run
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Answer, Question, Task, Votes
from radii.workers import scheduler
from radii.workers.pool import WorkerError
from radii.workers.scheduler import Pace, Program, Report, Scheduler
from radii.workers.voter import count_votes
from tools.processes import warm_context

ENVIRONMENT = {"versions": {"radii": "0"}}


class Counting(Executor):
    """Runs tasks when they are submitted, and keeps them; `change` may edit a report."""

    def __init__(self, change: Callable[[Report], Report] = lambda report: report) -> None:
        self.bundles: list[Sequence[Task]] = []
        self.change = change

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        result = fn(*args, **kwargs)
        if fn is count_votes:
            self.bundles.append(args[1])
            result = self.change(result)
        future.set_result(result)
        return future


@pytest.fixture
def run(digits_run: Callable[..., Run]) -> Run:
    return digits_run()


def config(run: Run, certifier: str = "fixed", **fields: Any) -> CertificationConfig:
    chosen = certifiers.create(certifier, **fields)
    return CertificationConfig(run=run.path, certifier=chosen, every=90, engine="torch", batch_size=32)


def without_times(path: Path) -> list[Any]:
    return [replace(row, seconds=0.0) for row in certificates.read(path).rows]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("fixed", {"selection": 10, "estimation": 1000}),
        ("fixed", {"selection": 10, "estimation": 1000, "radius": 0.25}),  # decides after every block
        ("planned", {"pilot": 50, "most_samples": 2000}),
        ("sequential", {"radii": (0.0, 0.25, 0.5), "most_samples": 3000}),
        ("soft", {"estimation": 500}),
    ],
)
def test_questions_split_over_workers_give_the_same_certificates(
    run: Run, name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certify_run(config(run, name, **fields), workers=1)
    alone = without_times(path)
    path.unlink()
    monkeypatch.setattr(scheduler, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(scheduler, "FIRST_BLOCKS", 2)
    pool = Counting()
    assert without_times(certify_run(config(run, name, **fields), workers=64, executor=pool)) == alone
    questions = [(task.address.image, task.question) for bundle in pool.bundles for task in bundle]
    assert any(question.first > 0 for _, question in questions)
    assert len(questions) == len(set(questions))


def test_worker_with_another_radii_version_is_refused_and_rows_are_kept(run: Run) -> None:
    request = config(run, selection=10, estimation=200)
    reports: list[Report] = []

    def change(report: Report) -> Report:
        reports.append(report)
        versions = {**report.environment["versions"], "radii": "0.0.1"}
        return replace(report, environment={**report.environment, "versions": versions}) if len(reports) > 1 else report

    with pytest.raises(WorkerError, match=r"a worker runs radii 0.0.1, this is .*: install the same version"):
        certify_run(request, workers=1, executor=Counting(change))
    before = sum(len(certificates.read(written).rows) for written in run.certificates.glob("*.tsv"))
    assert len(certificates.read(certify_run(request, workers=1)).rows) == 5 > before


def test_environments_of_workers_are_recorded_with_their_first_row(run: Run) -> None:
    request = replace(config(run, selection=10, estimation=200), max_images=2)
    reports: list[Report] = []

    def change(report: Report) -> Report:
        reports.append(report)
        name = "another" if len(reports) == 2 else report.environment["instruction_set"]
        return replace(report, environment={**report.environment, "instruction_set": name})

    path = certify_run(request, workers=1, executor=Counting(change))
    noted = certificates.read(path).header["environments"]
    assert [(each["first_row"], each["instruction_set"] == "another") for each in noted] == [(0, False), (0, True)]


def kill_worker(*_: Any) -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_broken_pool_is_reported_and_rows_are_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "FIRST_BLOCKS", 1)
    monkeypatch.setattr(scheduler, "LEAST_SECONDS", 0.0)
    request, written = replace(config(run, selection=10, estimation=2000), every=5), list[Any]()
    with ProcessPoolExecutor(1, warm_context()) as pool:

        def on_image(_: int, row: Any) -> None:
            written.append(row)
            if len(written) == 2:
                pool.submit(kill_worker)

        with pytest.raises(WorkerError, match=r"ProcessPoolExecutor failed at images? .* \(BrokenProcessPool: .*saved"):
            certify_run(request, workers=1, executor=pool, on_image=on_image)
    path = next(run.certificates.glob("*.tsv"))
    assert len(certificates.read(path).rows) == len(written) - 1 > 0


class Invented:
    """Workers that answer in another order, and may spoil an answer."""

    def __init__(self, spoil: Callable[[Task, Answer], Answer | Exception] = lambda _, answer: answer) -> None:
        self.bundles: dict[int, Sequence[Task]] = {}
        self.seen: list[int] = []
        self.spoil = spoil

    def submit(self, tasks: Sequence[Task]) -> int:
        self.bundles[ticket := len(self.seen)] = tasks
        self.seen.append(len(tasks))
        return ticket

    def next(self) -> tuple[int, Report]:
        ticket = max(self.bundles)
        answers, error = [], None
        tasks = self.bundles.pop(ticket)
        for task in tasks:
            answer = self.spoil(task, np.array([task.question.count, task.address.image]) * (1, 0))
            if isinstance(answer, Exception):
                error = answer
            else:
                answers.append(answer)
        seconds = 0.001 * sum(task.question.count for task in tasks)
        return ticket, Report([] if error else answers, seconds, "one", ENVIRONMENT, error)

    def close(self) -> None: ...


def steps(image: int) -> Generator[Question, Answer, int]:
    """Ask two questions; the second is large."""
    first = yield Votes(0, 0, 10 + image)
    second = yield Votes(1, 0, 5000)
    return int(first[0] + second[0])


def program(position: int) -> Program[int]:
    return Program(torch.zeros(1), NoiseAddress(0, position), steps(position))


def schedule(workers: Any, images: int = 20, begin: Callable[[int], Program[int]] = program) -> Scheduler[int]:
    return Scheduler(begin, images, workers, classes=2, block=32, expected=3)


def test_results_come_in_order_whatever_the_order_of_answers() -> None:
    workers = Invented()
    assert [done.result for done in schedule(workers).results()] == [5010 + image for image in range(20)]
    assert max(workers.seen) > 1  # small questions travel together


def test_error_of_an_image_is_raised_in_its_turn_and_others_are_not_lost() -> None:
    def spoil(task: Task, answer: Answer) -> Answer | Exception:
        return ValueError("no") if task.address.image == 7 else answer

    results = schedule(Invented(spoil)).results()
    assert [next(results).result for _ in range(7)] == [5010 + image for image in range(7)]
    with pytest.raises(ValueError, match="no"):
        next(results)


@pytest.mark.parametrize("wrong", [np.array([3, 0]), np.array([-1, 11]), np.array([10]), np.array([5, 6, 0])])
def test_impossible_answers_are_refused(wrong: Answer) -> None:
    with pytest.raises(ParameterError, match="it miscounts"):
        list(schedule(Invented(lambda *_: wrong)).results())


def test_image_that_cannot_be_read_is_an_error_in_its_turn() -> None:
    def begin(position: int) -> Program[int]:
        if position == 3:
            raise OSError("cannot read image 3")
        return program(position)

    results = schedule(Invented(), begin=begin).results()
    assert [next(results).result for _ in range(3)] == [5010, 5011, 5012]
    with pytest.raises(OSError, match="cannot read image 3"):
        next(results)


def test_program_without_questions_has_a_result() -> None:
    def nothing() -> Generator[Question, Answer, int]:
        return 5
        yield

    begin = lambda position: Program(None, NoiseAddress(0, position), nothing())  # noqa: E731
    assert [done.result for done in schedule(Invented(), 3, begin).results()] == [5, 5, 5]


def test_tasks_get_shorter_towards_the_end() -> None:
    pace = Pace(2, 100)
    pace.demanded(0, 10_000)
    pace.worked("one", 1_000, 1000.0)
    long, short = (pace.parts(Votes(0, 0, 9_000), left)[0].count for left in (10, 0))
    assert long == 9_000 > short >= 100


def test_images_in_flight_are_limited_even_if_the_first_is_answered_last() -> None:
    """A kill loses what is in flight."""
    begun: list[int] = []

    def begin(position: int) -> Program[int]:
        begun.append(position)
        return program(position)

    results = schedule(Invented(), 5000, begin).results()
    next(results)
    assert len(begun) <= 3 * scheduler.WINDOW


@pytest.mark.parametrize("wrong", ["ten votes", None, [10, 0]])
def test_answer_that_is_no_array_is_an_error_in_its_turn(wrong: Any) -> None:
    results = schedule(Invented(lambda task, answer: wrong if task.address.image == 7 else answer)).results()
    assert [next(results).result for _ in range(7)] == [5010 + image for image in range(7)]
    with pytest.raises(ParameterError, match=r"gave a (str|NoneType|list), expected an array"):
        next(results)


@pytest.mark.parametrize("times", [0, 2])
def test_wrong_number_of_answers_is_an_error_in_its_turn(times: int) -> None:
    class Miscounting(Invented):
        def next(self) -> tuple[int, Report]:
            tasks = self.bundles[max(self.bundles)]
            ticket, report = super().next()
            if any(task.address.image == 7 for task in tasks):
                report = replace(report, answers=[*report.answers] * times)
            return ticket, report

    results = schedule(Miscounting()).results()
    assert [next(results).result for _ in range(7)] == [5010 + image for image in range(7)]
    with pytest.raises(ParameterError, match=f"gave {times} answers to 1 questions"):
        next(results)


def test_certifier_that_asks_nonsense_is_an_error_in_its_turn() -> None:
    def begin(position: int) -> Program[int]:
        def nonsense() -> Generator[Any, Answer, int]:
            yield 100
            return 0

        return Program(torch.zeros(1), NoiseAddress(0, 7), nonsense()) if position == 7 else program(position)

    results = schedule(Invented(), begin=begin).results()
    assert [next(results).result for _ in range(7)] == [5010 + image for image in range(7)]
    with pytest.raises(ParameterError, match="asked 100, expected a question"):
        next(results)

"""Keep many images in flight: questions become tasks for workers, results come back in the order of the images.

The scheduler runs in the process that writes the file and takes every decision; workers only count votes. A question
that is larger than a task is split into parts of whole blocks, and small questions of several images are sent
together, so that they share forward passes. Images that have begun come before new ones, and tasks get shorter as less
is left, so that the workers end together.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from radii.errors import ParameterError
from radii.estimate import OnWork, Work, mean_samples
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Answer, Question, Task

Result = TypeVar("Result")

SHARES = 4
"""Tasks that a worker's share of the remaining work is divided into (guided self-scheduling, Polychronopoulos and Kuck
1987)."""
LEAST_SECONDS = 0.1
"""The shortest task that is worth sending to a worker."""
SHORTEST = 1e-6
"""Seconds that all answers take at least: a clock may stand still."""
FIRST_BLOCKS = 16
"""Blocks of the first tasks, before costs are known."""
TOO_WIDE = 10
"""The most may be this many times the least work left; a wider range has no upper end, once an image is finished."""
WINDOW = 256
"""Images for each worker that may begin before the first unfinished one has its result. A kill can lose them."""


@dataclass(frozen=True)
class Report:
    """The answers of a worker to some tasks, or its error, with its time, name and environment."""

    answers: Sequence[Answer]
    seconds: float
    worker: str
    environment: Mapping[str, Any]
    error: Exception | None = None
    asked: Sequence[tuple[NoiseAddress, Question]] = ()
    """The addresses and questions that were answered: an executor may mix up results."""


class Workers(Protocol):
    """Workers that answer tasks in any order."""

    def submit(self, tasks: Sequence[Task]) -> int:
        """Send tasks that are answered together; return a ticket."""

    def next(self) -> tuple[int, Report]:
        """Wait for a report; return it with its ticket. Raise a WorkerError if no worker can continue."""

    def close(self) -> None:
        """Drop the tasks that are not answered."""


class Program(NamedTuple, Generic[Result]):
    """An image, the address of its noise, and the questions about it, which end in a result."""

    image: Any
    address: NoiseAddress
    steps: Generator[Question, Answer, Result]


class Finished(NamedTuple, Generic[Result]):
    """The result of a program, the seconds that workers spent on it, and their environments."""

    result: Result
    seconds: float
    environments: Sequence[Mapping[str, Any]]


@dataclass(eq=False)
class _Image:
    """An image in flight: its present question and the answers to its parts."""

    position: int
    program: Program[Any]
    question: Question | None = None
    answers: list[Answer | None] = field(default_factory=list)
    samples: int = 0
    seconds: float = 0.0
    environments: list[Mapping[str, Any]] = field(default_factory=list)


class _Part(NamedTuple):
    """A part of an image's question."""

    image: _Image
    number: int
    question: Question

    @property
    def task(self) -> Task:
        return Task(self.image.program.image, self.image.program.address, self.question)


class Scheduler(Generic[Result]):
    """Runs one program for each image on workers.

    `begin(position)` makes the program of an image when its turn comes. `classes` and `block` are the classifier's,
    `expected` is the number of workers. `on_work` is called with the work that is done and left; `most_samples` are the
    most that an image can take, if known.
    """

    def __init__(
        self,
        begin: Callable[[int], Program[Result]],
        images: int,
        workers: Workers,
        *,
        classes: int,
        block: int,
        expected: int = 1,
        most_samples: float = math.inf,
        on_work: OnWork = lambda _: None,
    ) -> None:
        self._begin = begin
        self._images = images
        self._workers = workers
        self._classes = classes
        self._most_samples = most_samples
        self._on_work = on_work
        self._pace = Pace(expected, block)
        self._begun = self._yielded = 0
        self._ready: deque[_Part] = deque()
        self._alone: deque[_Part] = deque()
        """Parts of bundles that failed. They are sent again one by one, so that only the image at fault fails."""
        self._running: dict[int, list[_Part]] = {}
        self._done: dict[int, Finished[Result] | Exception] = {}

    def results(self) -> Generator[Finished[Result], None, None]:
        """Yield the results in the order of the images; an image's error is raised in its turn."""
        for position in range(self._images):
            while position not in self._done:
                self._fill()
                if position not in self._done:
                    self._collect(*self._workers.next())
            finished = self._done.pop(position)
            if isinstance(finished, Exception):
                raise finished
            self._yielded += 1
            yield finished

    def _fill(self) -> None:
        """Keep two bundles for every worker in flight: more would delay images that have begun."""
        while len(self._running) < 2 * self._pace.workers and (bundle := self._bundle()):
            self._running[self._workers.submit([part.task for part in bundle])] = bundle

    def _bundle(self) -> list[_Part]:
        """Take one large part, or enough small ones to be worth sending, and more that fill the last forward pass.

        If there are too few questions, new images begin.
        """
        if self._alone:
            return [self._alone.popleft()]
        bundle: list[_Part] = []
        total, enough = 0, self._pace.bundle(self._images - self._begun)
        while room := math.inf if total < enough else self._pace.room([part.question for part in bundle]):
            if not self._ready and not self._begin_next():
                break
            if self._ready:
                if (count := self._ready[0].question.count) > room:
                    break
                bundle.append(self._ready.popleft())
                total += count
        return bundle

    def _begin_next(self) -> bool:
        """Begin the next image; return False if there is none or if too many are in flight."""
        if self._begun >= min(self._images, self._yielded + WINDOW * self._pace.workers):
            return False
        position, self._begun = self._begun, self._begun + 1
        try:
            image = _Image(position, self._begin(position))
        except Exception as error:
            self._done[position] = error
        else:
            self._advance(image, None)
        return True

    def _collect(self, ticket: int, report: Report) -> None:
        """Take the answers of a report; send failed parts again, or give up their image."""
        parts = self._running.pop(ticket)
        error = report.error
        if error is None and len(report.answers) != len(parts):
            error = ParameterError(
                f"a worker gave {len(report.answers)} answers to {len(parts)} questions, expected one each",
                "classifier",
            )
        if isinstance(error, StopIteration | StopAsyncIteration):  # raised in a generator, they would end it
            error = RuntimeError(f"the classifier raised a {type(error).__name__}")
        if error is not None:
            if len(parts) > 1:
                self._alone.extend(parts)
            else:
                self._done.setdefault(parts[0].image.position, error)
            return
        total = sum(part.question.count for part in parts)
        self._pace.worked(report.worker, total, report.seconds)
        for part, answer in zip(parts, report.answers, strict=True):
            image, count = part.image, part.question.count
            image.samples += count
            image.seconds += report.seconds * count / total
            if report.environment not in image.environments:
                image.environments.append(report.environment)
            self._take(part, answer)
        if self._pace.known:
            self._on_work(lambda: self._pace.work(self._images, self._most_samples))

    def _take(self, part: _Part, answer: Answer) -> None:
        """Store the answer to a part; after the last part, go on with the image."""
        image = part.image
        if image.position in self._done or image.question is None:  # another part of it has failed
            return
        try:
            if not isinstance(answer, np.ndarray):
                raise ParameterError(f"the classifier gave a {type(answer).__name__}, expected an array", "classifier")
            answer = np.asarray(answer)  # of a masked array, all values
            part.question.check(answer, self._classes)
        except Exception as error:
            self._done[image.position] = error
            return
        image.answers[part.number] = answer
        if all(answer is not None for answer in image.answers):
            self._advance(image, image.question.join([answer for answer in image.answers if answer is not None]))

    def _advance(self, image: _Image, answer: Answer | None) -> None:
        """Send an answer to the image's program, which asks its next question or returns its result."""
        try:
            question = image.program.steps.send(answer)  # type: ignore[arg-type]
            if not isinstance(question, Question):
                raise ParameterError(f"the certifier asked {question!r}, expected a question", "certifier")
        except StopIteration as stopped:
            self._pace.demanded(image.position, image.samples)
            self._pace.finish(image.position)
            self._done[image.position] = Finished(stopped.value, image.seconds, image.environments)
            return
        except Exception as error:
            self._done[image.position] = error
            return
        self._pace.demanded(image.position, image.samples + question.count)
        parts = self._pace.parts(question, self._images - self._begun)
        image.question, image.answers = question, [None] * len(parts)
        self._ready.extend(_Part(image, number, part) for number, part in enumerate(parts))


class Pace:
    """Decides how large tasks are: a share of the work that is left, so that workers end together.

    It counts the samples that images have taken so far, and measures how fast the workers are.
    """

    def __init__(self, expected: int, block: int) -> None:
        self._expected = expected
        self._block = block
        self._seen: set[str] = set()
        self._demand: dict[int, int] = {}
        self._total = 0
        self._spent = self._reports = 0
        self._seconds = 0.0
        self._unfinished: set[int] = set()
        self._finished: Counter[int] = Counter()
        """Finished images by their samples."""

    @property
    def workers(self) -> int:
        """The number of workers that were expected or that have answered, whichever is larger."""
        return max(self._expected, len(self._seen))

    def worked(self, worker: str, samples: int, seconds: float) -> None:
        """Record a worker's answer."""
        self._seen.add(worker)
        self._reports += 1
        self._spent += samples
        self._seconds += seconds

    def demanded(self, image: int, samples: int) -> None:
        """Record that an image takes at least so many samples, with its present question."""
        self._total += samples - self._demand.get(image, 0)
        self._demand[image] = samples
        self._unfinished.add(image)

    def finish(self, image: int) -> None:
        """Record that an image has its result."""
        self._unfinished.discard(image)
        self._finished[self._demand[image]] += 1

    @property
    def known(self) -> bool:
        """Whether every worker has answered about twice. Before, too much of the work done is in no report yet."""
        return self._reports >= 2 * self.workers

    def work(self, images: int, most_samples: float) -> Work:
        """Return the work done, and the range of what is left, for so many images of at most so many samples."""
        unfinished = (self._demand[image] for image in self._unfinished)
        means = mean_samples(self._finished, unfinished, most_samples)
        least, most = (max(0.0, images * mean - self._spent) for mean in means)
        if self._finished and most > TOO_WIDE * least:
            most = math.inf
        return Work(self._spent, self._seconds / self.workers, least, most)

    def bundle(self, images_left: int) -> int:
        """Return how many samples to send together: some blocks, fewer near the end, but at least `LEAST_SECONDS`."""
        return max(self._least(), min(FIRST_BLOCKS * self._block, self._task(images_left)))

    def room(self, questions: Sequence[Question]) -> int:
        """Return how many copies still fit into the last forward pass of these questions."""
        return -sum(question.count % self._block for question in questions) % self._block

    def parts(self, question: Question, images_left: int) -> list[Question]:
        """Split a question into tasks; leave it whole if it is hardly larger than one."""
        size = self._task(images_left)
        return question.split(size, self._block) if 2 * question.count > 3 * size else [question]

    def _task(self, images_left: int) -> int:
        """Return the samples of the largest task, in whole blocks."""
        if not self._spent:
            return FIRST_BLOCKS * self._block
        left = self._total - self._spent + images_left * self._total / len(self._demand)
        return max(self._least(), self._blocks(left / (SHARES * self.workers)))

    def _least(self) -> int:
        """Return the samples of the shortest task, in whole blocks."""
        rate = self._spent / max(self._seconds, SHORTEST) if self._seconds else 0.0
        return self._blocks(rate * LEAST_SECONDS)

    def _blocks(self, samples: float) -> int:
        return max(1, -(-int(samples) // self._block)) * self._block

"""Keep many images in flight: questions become tasks for workers, results come back in the order of the images.

The scheduler runs in the process that writes the file and takes every decision; workers only count votes. A question
that is larger than a task is split into parts of whole blocks, and small questions of several images are sent
together, so that they share forward passes. Images that have begun come before new ones, and tasks get shorter as less
is left, so that the workers end together.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from radii.errors import ParameterError
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Answer, Question, Task

Result = TypeVar("Result")

SHARES = 4
"""Tasks for each worker that the remaining work would make (guided self-scheduling, Polychronopoulos and Kuck 1987)."""
LEAST_SECONDS = 0.1
"""The shortest task that is worth its way to a worker and back."""
FIRST_BLOCKS = 16
"""Blocks of the first tasks, before costs are known."""
WINDOW = 256
"""Images for each worker that may be begun beyond the first one without a result: what a kill can lose."""


@dataclass(frozen=True)
class Report:
    """The answers of a worker to some tasks, or its error, and who computed them."""

    answers: Sequence[Answer]
    seconds: float
    worker: str
    environment: Mapping[str, Any]
    error: Exception | None = None


class Workers(Protocol):
    """Whoever answers tasks, in any order."""

    def submit(self, tasks: Sequence[Task]) -> int:
        """Have tasks answered together; returns a ticket."""

    def next(self) -> tuple[int, Report]:
        """Wait for an answer; returns the ticket and the report. Raises a WorkerError if nobody can go on."""

    def close(self) -> None:
        """Drop what is not answered."""


class Program(NamedTuple, Generic[Result]):
    """An image, the address of its noise, and the questions about it, which end in a result."""

    image: Any
    address: NoiseAddress
    steps: Generator[Question, Answer, Result]


class Finished(NamedTuple, Generic[Result]):
    """The result of a program, the seconds of workers that it took, and their environments."""

    result: Result
    seconds: float
    environments: Sequence[Mapping[str, Any]]


@dataclass(eq=False)
class _Image:
    """An image in flight: its present question and the answers to the parts of it."""

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

    `begin(position)` makes the program of an image when its turn comes. `classes` and `block` are those of the
    classifier, `expected` is the number of workers.
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
    ) -> None:
        self._begin = begin
        self._images = images
        self._workers = workers
        self._classes = classes
        self._pace = Pace(expected, block)
        self._begun = self._yielded = 0
        self._ready: deque[_Part] = deque()
        self._alone: deque[_Part] = deque()
        """Parts that failed in company: each is tried again alone, so that only the image at fault fails."""
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
        """Keep two bundles for every worker under way: more would delay the images that come back."""
        while len(self._running) < 2 * self._pace.workers and (bundle := self._bundle()):
            self._running[self._workers.submit([part.task for part in bundle])] = bundle

    def _bundle(self) -> list[_Part]:
        """Take one large part, or as many small ones as are worth sending, then small ones that fill the last pass.

        New images begin where there are too few questions.
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
        """Begin the next image; returns whether there is one, and whether so many may be in flight."""
        if self._begun >= min(self._images, self._yielded + WINDOW * self._pace.workers):
            return False
        self._start(self._begun)
        return True

    def _start(self, position: int) -> None:
        self._begun += 1
        try:
            image = _Image(position, self._begin(position))
        except Exception as error:
            self._done[position] = error
        else:
            self._advance(image, None)

    def _collect(self, ticket: int, report: Report) -> None:
        parts = self._running.pop(ticket)
        error = report.error
        if error is None and len(report.answers) != len(parts):
            error = ParameterError(
                f"a worker gave {len(report.answers)} answers for {len(parts)} questions: it miscounts", "classifier"
            )
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

    def _take(self, part: _Part, answer: Answer) -> None:
        """Keep the answer to a part; the last one answers the image's question."""
        image = part.image
        if image.position in self._done or image.question is None:  # another part of it has failed
            return
        try:
            if not isinstance(answer, np.ndarray):
                raise ParameterError(f"the classifier gave a {type(answer).__name__}, expected an array", "classifier")
            part.question.check(answer, self._classes)
        except Exception as error:
            self._done[image.position] = error
            return
        image.answers[part.number] = answer
        if all(answer is not None for answer in image.answers):
            self._advance(image, image.question.join([answer for answer in image.answers if answer is not None]))

    def _advance(self, image: _Image, answer: Answer | None) -> None:
        """Go on to the image's next question, or to its result."""
        try:
            question = image.program.steps.send(answer)  # type: ignore[arg-type]
            if not isinstance(question, Question):
                raise ParameterError(f"the certifier asked {question!r}, expected a question", "certifier")
        except StopIteration as stopped:
            self._pace.demanded(image.position, image.samples)
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
    """How much work one task is: a share of what is left, so that large tasks come first and nobody waits at the end.

    It knows the samples of the images so far, and how fast the workers are.
    """

    def __init__(self, expected: int, block: int) -> None:
        self._expected = expected
        self._block = block
        self._seen: set[str] = set()
        self._demand: dict[int, int] = {}
        self._total = 0
        self._spent = 0
        self._seconds = 0.0

    @property
    def workers(self) -> int:
        """The workers that were expected, or that have answered, whichever are more."""
        return max(self._expected, len(self._seen))

    def worked(self, worker: str, samples: int, seconds: float) -> None:
        """Note a worker's answer."""
        self._seen.add(worker)
        self._spent += samples
        self._seconds += seconds

    def demanded(self, image: int, samples: int) -> None:
        """Note that an image takes at least so many samples, its present question included."""
        self._total += samples - self._demand.get(image, 0)
        self._demand[image] = samples

    def bundle(self, images_left: int) -> int:
        """Samples that are worth sending together: a tenth of a second, or some blocks, but less near the end."""
        return max(self._least(), min(FIRST_BLOCKS * self._block, self._task(images_left)))

    def room(self, questions: Sequence[Question]) -> int:
        """Copies that still fit into the last forward pass of these questions."""
        return -sum(question.count % self._block for question in questions) % self._block

    def parts(self, question: Question, images_left: int) -> list[Question]:
        """Split a question into parts of one task each; one part if it is hardly more than a task."""
        size = self._task(images_left)
        return question.split(size, self._block) if 2 * question.count > 3 * size else [question]

    def _task(self, images_left: int) -> int:
        """Samples of the largest task, in whole blocks."""
        if not self._spent:
            return FIRST_BLOCKS * self._block
        left = self._total - self._spent + images_left * self._total / len(self._demand)
        return max(self._least(), self._blocks(left / (SHARES * self.workers)))

    def _least(self) -> int:
        """Samples of the shortest task, in whole blocks."""
        rate = self._spent / self._seconds if self._seconds else 0.0
        return self._blocks(rate * LEAST_SECONDS)

    def _blocks(self, samples: float) -> int:
        return max(1, -(-int(samples) // self._block)) * self._block

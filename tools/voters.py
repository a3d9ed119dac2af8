"""Voters for tests and stress runs: without a model, or with a model that runs as it is."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from radii.engines import SmoothedClassifier
from radii.smoothing.noise import Gaussian, Noise
from radii.smoothing.questions import Answer, Probabilities, Question, Task, Votes


class FakeVoter:
    """Answers each question by a function, and keeps the questions in `asked`."""

    def __init__(
        self, answer: Callable[[Any], Any], *, classes: int = 2, noise: Noise | None = None, batch_size: int = 128
    ) -> None:
        self.answer = answer
        self.classes = classes
        self.noise = noise or Gaussian(1.0)
        self.batch_size = batch_size
        self.asked: list[Question] = []

    def count(self, tasks: Sequence[Task]) -> list[Answer]:
        self.asked += [task.question for task in tasks]
        return [np.asarray(self.answer(task.question)) for task in tasks]


def random_voter(*chances: float, seed: int = 0) -> FakeVoter:
    """Make a voter that draws the class of every copy with these probabilities; every question gets new draws."""
    rng = np.random.default_rng(seed)
    drawn: defaultdict[int, list[Answer]] = defaultdict(list)

    def votes(count: int) -> Answer:
        if not drawn[count]:
            drawn[count] += list(rng.multinomial(count, chances, 100))  # one at a time they take much longer
        return drawn[count].pop()

    def answer(question: Question) -> Answer:
        if isinstance(question, Votes):
            return votes(question.count)
        assert isinstance(question, Probabilities)
        if question.label is None:
            return votes(question.count).astype(float)
        return (rng.random(question.count) < chances[question.label]).astype(float)

    return FakeVoter(answer, classes=len(chances))


def miscounter(factor: float) -> FakeVoter:
    """Make a voter for a fair coin that counts `factor` votes or rows per sample."""

    def answer(question: Question) -> Answer:
        total = max(round(factor * question.count), 1)
        if isinstance(question, Votes):
            return np.array([total - total // 2, total // 2])
        assert isinstance(question, Probabilities)
        return np.full(2, total / 2) if question.label is None else np.full(total, 0.5)

    return FakeVoter(answer)


def plain(base: nn.Module, *images: Tensor, **fields: Any) -> SmoothedClassifier:
    """Make a smoothed classifier that runs its base as it is for images of these sizes: no engine prepares it."""
    classifier = SmoothedClassifier(base, **fields)
    for image in images:
        classifier.adopt("torch", image, base)
    return classifier

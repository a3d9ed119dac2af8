"""The contract of a certifier."""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from radii.errors import ParameterError
from radii.fields import option, settings_of
from radii.plugins import Component
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise.base import Noise
from radii.smoothing.questions import Answer, Question, Task

LOOK = 128
"""Copies that are worth asking for at a time, by whoever may stop after any number of them."""


class About(NamedTuple):
    """What a certifier may know about the classifier."""

    noise: Noise
    classes: int
    block: int = LOOK
    """Copies to ask for at a time: fewer cost as much. With the older streams, the size of a block."""

    @classmethod
    def voter(cls, voter: "Voter", stream: str | None) -> "About":
        """Describe a voter whose noise is drawn from these streams."""
        by_number = stream is not None and voter.noise.stream is not None
        return cls(voter.noise, voter.classes, LOOK if by_number else voter.batch_size)


Steps = Generator[Question, Any, Certificate]
"""A certification of one image: it yields questions, is sent their answers, and returns the certificate."""


class TimeUp(Exception):  # noqa: N818  it is no error
    """Thrown into a certification instead of an answer, at a deadline.

    A certifier whose guarantee holds whenever it stops returns what is proven by then. Others let it pass: then nothing
    is proven.
    """


class Voter(Protocol):
    """Whoever answers questions, such as a smoothed classifier."""

    @property
    def noise(self) -> Noise: ...

    @property
    def classes(self) -> int: ...

    @property
    def batch_size(self) -> int: ...

    def count(self, tasks: Sequence[Task]) -> list[Answer]:
        """Answer the question of every task."""


def certify_image(
    certifier: "Certifier", voter: Voter, image: Any, address: NoiseAddress, label: int | None = None
) -> Certificate:
    """Certify one image: ask the voter each question of the certifier at once."""
    steps = certifier.certify(About.voter(voter, address.stream), label)
    answer = None
    while True:
        try:
            question = steps.send(answer)
        except StopIteration as stopped:
            certificate: Certificate = stopped.value
            return certificate
        answers = voter.count([Task(image, address, question)])
        if len(answers) != 1:
            raise ParameterError(f"the classifier gave {len(answers)} answers for 1 question", "classifier")
        answer = answers[0]
        question.check(answer, voter.classes)


@dataclass(frozen=True, kw_only=True)
class Certifier(Component, ABC):
    """A method of certification: its certificates are wrong with probability at most `failure`."""

    registry: ClassVar[str] = "certifier"

    failure: float = option(0.001, gt=0, lt=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting in settings_of(type(self)):  # 1 and 1.0 are one setting, whose certificates are one file
            value = getattr(self, setting.name)
            if float in (setting.hint, *get_args(setting.hint)) and isinstance(value, int):
                object.__setattr__(self, setting.name, float(value))
        field, fewest = self.fewest_samples()
        if (samples := getattr(self, field)) < fewest:
            raise ValueError(
                f"{field} = {samples} can never certify at failure {self.failure:g}, "
                f"even if all agree; the smallest that can is {fewest}"
            )

    @abstractmethod
    def fewest_samples(self) -> tuple[str, int]:
        """Return the field that states the number of samples, and the fewest that a prediction can need."""

    def expect_possible(self, noise: Noise) -> None:
        """Raise a ValueError if this certifier asks for a radius that it can never certify under a noise."""

    @abstractmethod
    def certify(self, about: About, label: int | None = None) -> Steps:
        """Certify one image: yield questions about its noisy copies, return the certificate.

        `label` is the true class where it is known.
        """

    def possible_radii(
        self, counts: NDArray[np.int64], samples: int, prediction: int, noise: Noise
    ) -> tuple[float, ...] | None:
        """Return the radii that these counts may prove for a class: empty if none, None if they do not determine it.

        Raise a ValueError for counts or samples that this certifier cannot have written.
        """
        return None

    def expect_spent(self, samples: int, drawn: int, before: int) -> None:
        """Raise a ValueError unless the samples are those that were counted and those drawn before."""
        if samples != drawn + before:
            raise ValueError(f"{drawn} votes and {before} samples before them are not the {samples} samples stated")

    def proven(self, prediction: int, radius: float, samples: int, counts: Iterable[int]) -> Certificate:
        """Make the certificate of this certifier; a radius below zero proves nothing."""
        counts = tuple(map(int, counts))
        if sum(counts) > samples:
            raise ParameterError(
                f"the certifier {self.name!r} counted {sum(counts)} votes of {samples} samples: it miscounts",
                "certifier",
            )
        if prediction == ABSTAIN or not radius >= 0:
            prediction, radius = ABSTAIN, 0.0
        return Certificate(prediction, float(radius), samples, counts, self)

    def expect_reachable(self, radius: float, largest: float, noise: Noise) -> None:
        """Raise a ValueError if a radius is above `largest`, the one certified when all samples agree."""
        if radius > largest:
            raise ValueError(
                f"radius {radius:g} can never be certified at failure {self.failure:g} under {noise}, "
                f"even if all samples agree; the largest that can is {math.floor(largest * 1e4) / 1e4:g}"
            )

"""`certify_image` asks a voter the questions of a certifier, and refuses answers that cannot be right."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from radii import certifiers
from radii.certifiers import certify_image
from radii.certifiers.base import About, Certifier, Steps
from radii.errors import ParameterError
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Gaussian
from radii.smoothing.questions import Answer, Question, Task, Votes
from tools.voters import FakeVoter, miscounter


@pytest.mark.parametrize("factor", [2.0, 1.01, 0.99, 0.5])
@pytest.mark.parametrize("name", certifiers.names())
def test_miscounted_votes_are_refused(name: str, factor: float) -> None:
    voter = miscounter(factor)
    with pytest.raises(ParameterError, match=r"the classifier gave .* for \d+ samples, expected .*: it miscounts"):
        certify_image(certifiers.create(name), voter, None, NoiseAddress(0))
    assert len(voter.asked) == 1


@pytest.mark.parametrize("name", certifiers.names())
def test_counts_of_another_number_of_classes_are_refused(name: str) -> None:
    voter = miscounter(1.0)
    voter.classes = 3
    with pytest.raises(ParameterError, match="it miscounts"):
        certify_image(certifiers.create(name), voter, None, NoiseAddress(0))


WRONG: dict[str, Callable[[Question], Any]] = {
    "nothing": lambda _: [],
    "a number": lambda question: question.count,
    "a row too many": lambda question: [[question.count, 0]],
    "below zero": lambda question: [question.count + 1, -1],
    "not a number": lambda _: [np.nan, np.nan],
    "infinite": lambda _: [np.inf, -np.inf],
    "text": lambda _: ["many", "few"],
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("name", certifiers.names())
def test_answers_that_cannot_be_right_are_refused(name: str, answer: Callable[[Question], Any]) -> None:
    with pytest.raises(ParameterError, match="it miscounts"):
        certify_image(certifiers.create(name), FakeVoter(answer), None, NoiseAddress(0))


class Own(Certifier):
    """A user's certifier."""

    samples: ClassVar[int] = 100

    def fewest_samples(self) -> tuple[str, int]:
        return "samples", 1


class Careless(Own):
    """Does not check the number of votes."""

    def certify(self, about: About, label: int | None = None) -> Steps:
        counts = yield Votes(0, 0, 100)
        return self.proven(0, 1.0, 100, counts)


class Silent(Own):
    """Abstains without a question."""

    def certify(self, about: About, label: int | None = None) -> Steps:
        return self.proven(ABSTAIN, 0.0, 0, ())
        yield


class Broken(Own):
    """Raises at the first question or at the answer to it."""

    at_once: ClassVar[bool] = True

    def certify(self, about: About, label: int | None = None) -> Steps:
        if self.at_once:
            raise ValueError("no certificate")
        yield Votes(0, 0, 100)
        raise ValueError("no certificate")


class Late(Broken):
    at_once = False


def test_a_certificate_of_more_votes_than_samples_is_refused() -> None:
    with pytest.raises(ParameterError, match="gave 200 votes .* for 100 samples"):
        certify_image(Careless(), miscounter(2.0), None, NoiseAddress(0))


def test_a_certifier_that_counts_more_votes_than_samples_is_refused() -> None:
    with pytest.raises(ParameterError, match="Careless' counted 200 votes of 100 samples: it miscounts"):
        Careless().proven(0, 1.0, 100, (150, 50))


def test_a_certifier_may_ask_nothing() -> None:
    voter = miscounter(1.0)
    found = certify_image(Silent(), voter, None, NoiseAddress(0))
    assert (found.prediction, found.radius, found.samples, found.counts) == (ABSTAIN, 0.0, 0, ())
    assert voter.asked == []


@pytest.mark.parametrize(("certifier", "asked"), [(Broken(), 0), (Late(), 1)])
def test_an_error_of_the_certifier_is_raised(certifier: Certifier, asked: int) -> None:
    voter = miscounter(1.0)
    with pytest.raises(ValueError, match="no certificate"):
        certify_image(certifier, voter, None, NoiseAddress(0))
    assert len(voter.asked) == asked


def test_an_error_of_the_voter_is_raised() -> None:
    def fail(_: Question) -> Answer:
        raise RuntimeError("no votes")

    with pytest.raises(RuntimeError, match="no votes"):
        certify_image(Careless(), FakeVoter(fail), None, NoiseAddress(0))


@pytest.mark.parametrize("answers", [0, 2])
def test_another_number_of_answers_is_refused(answers: int) -> None:
    class Several(FakeVoter):
        def count(self, tasks: Any) -> list[Answer]:
            return [np.array([100, 0])] * answers

    with pytest.raises(ParameterError, match=f"gave {answers} answers for 1 question"):
        certify_image(Careless(), Several(lambda _: 0), None, NoiseAddress(0))


def test_the_voter_is_asked_about_the_image_and_the_certifier_knows_the_voter() -> None:
    tasks: list[Task] = []
    abouts: list[tuple[About, int | None]] = []

    class Asks(Own):
        def certify(self, about: About, label: int | None = None) -> Steps:
            abouts.append((about, label))
            first = yield Votes(0, 0, 100)
            second = yield Votes(1, 256, 50)
            return self.proven(0, 1.0, 150, first + second)

    class Keeps(FakeVoter):
        def count(self, given: Any) -> list[Answer]:
            tasks.extend(given)
            return super().count(given)

    voter = Keeps(lambda question: [question.count, 0], noise=Gaussian(0.5), batch_size=64)
    found = certify_image(Asks(), voter, "image", NoiseAddress(3, 7), label=1)
    assert found.counts == (150, 0)
    assert abouts == [(About(Gaussian(0.5), 2, 128), 1)]
    certify_image(Asks(), voter, "image", NoiseAddress(3, 7, stream=None))
    assert abouts[1:] == [(About(Gaussian(0.5), 2, 64), None)]
    del tasks[2:]
    assert tasks == [Task("image", NoiseAddress(3, 7), question) for question in (Votes(0, 0, 100), Votes(1, 256, 50))]  # type: ignore[arg-type]

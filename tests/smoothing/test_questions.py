"""Questions: how they are split and joined, and which answers they refuse."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from radii.errors import ParameterError
from radii.smoothing.questions import FavouredVotes, NearTies, Probabilities, Question, Votes

QUESTIONS: dict[str, Question] = {
    "votes": Votes(1, 0, 300),
    "sums of probabilities": Probabilities(1, 0, 300, 2.0),
    "probabilities of a class": Probabilities(1, 0, 300, 2.0, label=1),
    "near ties": NearTies(1, 0, 300, rounding=0.01),
    "favoured votes": FavouredVotes(1, 0, 300, label=2, rounding=0.01),
}


def logits() -> Tensor:
    return 3 * torch.randn(300, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("bounds", [(100,), (1, 2, 299), (128, 256), tuple(range(1, 300))], ids=len)
def test_joined_answers_equal_the_answer_for_all_copies(question: Question, bounds: tuple[int, ...]) -> None:
    whole = question.answer(logits()).numpy()
    parts = [question.answer(rows).numpy() for rows in logits().tensor_split(bounds)]
    joined = question.join(parts)
    assert joined.dtype == whole.dtype
    assert np.array_equal(joined, whole)
    assert np.array_equal(question.join([whole]), whole)
    question.check(joined, 4)


def test_answers_are_those_of_the_logits() -> None:
    rows = logits()
    assert Votes(0, 0, 300).answer(rows).tolist() == [int((rows.argmax(1) == label).sum()) for label in range(4)]
    soft = (2.0 * rows.double()).softmax(1)
    assert torch.equal(Probabilities(0, 0, 300, 2.0, label=3).answer(rows), soft[:, 3])
    assert Probabilities(0, 0, 300, 2.0).answer(rows).tolist() == pytest.approx(soft.sum(0).tolist(), abs=1e-7)
    ordered = rows.sort(1).values
    close = ordered[:, -1] - ordered[:, -2] <= 2 * 0.01 * rows.abs().amax(1)
    assert 0 < close.sum() < 300
    assert NearTies(0, 0, 300, rounding=0.01).answer(rows).tolist() == [close.sum()]
    favoured = FavouredVotes(0, 0, 300, label=2, rounding=0.01).answer(rows)
    near = rows.amax(1) - rows[:, 2] <= 2 * 0.01 * rows.abs().amax(1)
    assert favoured[2] == near.sum() > Votes(0, 0, 300).answer(rows)[2]


def test_large_sharpness_gives_votes() -> None:
    assert Probabilities(0, 0, 300, 1e9).answer(logits()).tolist() == Votes(0, 0, 300).answer(logits()).tolist()


def test_the_probabilities_of_one_class_do_not_hold_those_of_the_others() -> None:
    values = Probabilities(0, 0, 300, label=1).answer(logits())
    assert values.untyped_storage().nbytes() == 300 * 8


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("size", [1, 31, 32, 33, 100, 299, 300, 1_000])
@pytest.mark.parametrize("block", [1, 32, 128, 512])
def test_parts_of_a_question_are_whole_blocks_in_order(question: Question, size: int, block: int) -> None:
    parts = question.split(size, block)
    assert [part.first for part in parts] == np.cumsum([0, *(part.count for part in parts[:-1])]).tolist()
    assert sum(part.count for part in parts) == 300
    assert all(part.count % block == 0 for part in parts[:-1])
    assert all(part.count <= size + 2 * block for part in parts)
    assert len(parts) == min(-(-300 // size), -(-300 // block))
    same = {(type(part), part.stage, getattr(part, "sharpness", 0), getattr(part, "label", 0)) for part in parts}
    assert same == {(type(question), 1, getattr(question, "sharpness", 0), getattr(question, "label", 0))}


def test_a_part_is_split_like_a_question() -> None:
    assert Votes(2, 256, 300).split(128, 128) == [Votes(2, 256, 128), Votes(2, 384, 128), Votes(2, 512, 44)]


@pytest.mark.parametrize("count", [0, -1])
def test_a_question_about_no_copies_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"samples = {count}, expected at least 1"):
        Votes(0, 0, count)


SUMS, VALUES, TIES = Probabilities(0, 0, 4), Probabilities(0, 0, 4, label=1), NearTies(0, 0, 4)
VOTES = Votes(0, 0, 4)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (VOTES, [4, 0]),
        (VOTES, [0, 4]),
        (VOTES, np.array([1, 3], np.uint8)),
        (SUMS, [4.0, 0.0]),
        (SUMS, [1.5, 2.5]),
        (SUMS, [1.5, 2.5 + 1e-12]),
        (VALUES, [0.0, 1.0, 0.5, 0.5]),
        (VALUES, [0.0, 0.0, 0.0, 0.0]),
        (TIES, [0]),
        (TIES, [4]),
    ],
    ids=str,
)
def test_possible_answers_are_accepted(question: Question, answer: Any) -> None:
    question.check(np.array(answer), 2)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (VOTES, [3, 2]),
        (VOTES, [3, 0]),
        (VOTES, [5, -1]),
        (VOTES, [4]),
        (VOTES, [4, 0, 0]),
        (VOTES, [[4, 0]]),
        (VOTES, 4),
        (VOTES, []),
        (VOTES, [2.0, 2.0]),
        (VOTES, [0.5, 3.5]),
        (VOTES, [np.nan, 4.0]),
        (VOTES, ["2", "2"]),
        (VOTES, [None, None]),
        (VOTES, [True, False]),
        (SUMS, [2.0, 2.1]),
        (SUMS, [1.0, 1.0]),
        (SUMS, [-0.1, 4.1]),
        (SUMS, [-0.5, 3.0]),
        (SUMS, [np.nan, 2.0]),
        (SUMS, [np.nan, np.nan]),
        (SUMS, [np.inf, 0.0]),
        (SUMS, [4.0]),
        (SUMS, [1.0, 1.0, 2.0]),
        (SUMS, []),
        (SUMS, [2, 2]),
        (VALUES, [0.0, 1.0, 0.5]),
        (VALUES, [0.0, 1.0, 0.5, 0.5, 0.5]),
        (VALUES, [0.0, 1.0, 0.5, -1e-3]),
        (VALUES, [0.0, 1.0, 0.5, 1.001]),
        (VALUES, [0.0, 1.0, 0.5, np.nan]),
        (VALUES, [0.0, 1.0, 0.5, -np.inf]),
        (VALUES, [[0.0], [1.0], [0.5], [0.5]]),
        (VALUES, []),
        (TIES, [-1]),
        (TIES, [5]),
        (TIES, [1, 1]),
        (TIES, [0.5]),
        (TIES, [np.nan]),
        (TIES, 1),
        (TIES, []),
    ],
    ids=str,
)
def test_impossible_answers_are_refused(question: Question, answer: Any) -> None:
    with pytest.raises(ParameterError, match=r"the classifier gave .* for 4 samples, expected .*: it miscounts$"):
        question.check(np.array(answer), 2)


def test_votes_whose_sum_wraps_around_are_refused() -> None:
    counts = np.array([2**62, 2**62, 2**62, 2**62 + 4])
    assert counts.sum() == 4
    with pytest.raises(ParameterError, match="it miscounts"):
        VOTES.check(counts, 4)

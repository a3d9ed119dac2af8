"""Packed forward passes: a task's answer does not depend on the tasks that share its passes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from radii import models
from radii.engines import SmoothedClassifier
from radii.smoothing import noise as noises
from radii.smoothing import packing
from radii.smoothing.addresses import PHILOX, NoiseAddress
from radii.smoothing.noise import Gaussian, Noise
from radii.smoothing.packing import answer_tasks
from radii.smoothing.questions import NearTies, Probabilities, Question, Task, Votes
from radii.smoothing.streams import Joined, Part, Stream
from tools.voters import plain

BLOCK = 16
NOISES: dict[str, dict[str, Any]] = {"gaussian": {"sigma": 0.5}, "grid": {"sigma": 0.5}}
NETS: dict[str, tuple[tuple[int, int, int], Callable[[], nn.Module]]] = {
    "lenet": ((1, 28, 28), lambda: models.create("lenet")),
    "cifar_resnet20": ((3, 16, 16), lambda: models.create("cifar_resnet20", shape=(3, 16, 16), classes=10)),
    "digits_cnn": ((1, 8, 8), lambda: models.create("digits_cnn")),
    "digits_mlp": ((1, 8, 8), lambda: models.create("digits_mlp")),
    "vit": (
        (3, 16, 16),
        lambda: models.create("vit", shape=(3, 16, 16), classes=10, width=24, layers=2, heads=2),
    ),
    "linear": ((3, 16, 16), lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 10))),
}
COUNTS = (1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 2 * BLOCK + 7, 3)


def test_every_noise_is_tested() -> None:
    assert set(NOISES) == set(noises.names())


@pytest.fixture(params=noises.names())
def noise(request: pytest.FixtureRequest) -> Noise:
    return noises.create(request.param, **NOISES[request.param])


def picture(shape: tuple[int, int, int], number: int) -> Tensor:
    """Make an image of 8 bits, which every noise takes."""
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(number)).float().div_(255)


def questions(count: int, first: int = 0) -> list[Question]:
    return [
        Votes(1, first, count),
        Probabilities(1, first, count, 2.0),
        Probabilities(1, first, count, 2.0, label=3),
        NearTies(1, first, count, rounding=0.01),
    ]


def tasks_of(shape: tuple[int, int, int]) -> list[Task]:
    """Every question about an image of its own, with various counts and first copies."""
    asked = [question for number, count in enumerate(COUNTS) for question in questions(count, first=number % 3 * BLOCK)]
    return [Task(picture(shape, number), NoiseAddress(7, number), question) for number, question in enumerate(asked)]


@pytest.fixture(params=NETS)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def classifier_of(name: str, noise: Noise) -> SmoothedClassifier:
    shape, make = NETS[name]
    torch.manual_seed(0)
    model = make()
    model(torch.rand(16, *shape))  # statistics for BatchNorm
    return SmoothedClassifier(model.eval(), noise=noise, classes=10, batch_size=BLOCK)


def expect_equal(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


def test_packed_answers_equal_those_of_each_task_alone_in_any_order(name: str, noise: Noise) -> None:
    classifier, tasks = classifier_of(name, noise), tasks_of(NETS[name][0])
    packed = classifier.count(tasks)
    for task, answer in zip(tasks, packed, strict=True):
        task.question.check(answer, 10)
    expect_equal([classifier.count([task])[0] for task in tasks], packed)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(tasks)).tolist()
        expect_equal(classifier.count([tasks[number] for number in order]), [packed[number] for number in order])


def test_copies_of_several_images_that_are_drawn_together_are_the_same(
    name: str, noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a GPU does: it takes the same time to launch the operations for one copy and for all of a pass."""
    classifier, tasks = classifier_of(name, noise), tasks_of(NETS[name][0])
    expected, joined, of = classifier.count(tasks), list[int](), Joined.of

    def recorded(parts: Sequence[Part], device: torch.device) -> Joined:
        joined.append(len(parts))
        return of(parts, device)

    monkeypatch.setattr(packing, "_joins", lambda noise, _: noise.joins)
    monkeypatch.setattr(Joined, "of", recorded)
    expect_equal(classifier.count(tasks), expected)
    assert max(joined) > 1


def test_a_noise_of_ones_own_draws_the_copies_of_each_image_alone() -> None:
    class Own(Gaussian):
        def draw(self, pixels: Tensor, out: Tensor, stream: Stream, first: int) -> Tensor:
            return super().draw(pixels, out, stream, first)

    assert Gaussian(0.5).joins
    assert not Own(0.5).joins


def test_parts_of_a_question_join_to_its_answer(name: str, noise: Noise) -> None:
    classifier, image, address = classifier_of(name, noise), picture(NETS[name][0], 1), NoiseAddress(7, 1)
    for question in questions(5 * BLOCK + 3, first=2 * BLOCK):
        (whole,) = classifier.count([Task(image, address, question)])
        for size in (1, 2 * BLOCK, 1_000):
            parts = classifier.count([Task(image, address, part) for part in question.split(size, BLOCK)])
            expect_equal([question.join(parts)], [whole])


def test_votes_are_those_of_the_question() -> None:
    classifier, image = classifier_of("digits_cnn", Gaussian(0.5)), picture((1, 8, 8), 1)
    (votes,) = classifier.count([Task(image, NoiseAddress(7, 1), Votes(2, 0, 50))])
    assert np.array_equal(classifier.votes(image, 50, NoiseAddress(7, 1, 2)), votes)


class Recorder(nn.Module):
    """Keeps what it is given, for images of any size; classifies by the first pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(images.clone())
        first = images[:, 0, 0, 0]
        return torch.stack([first, 1 - first], 1)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def recorded(recorder: Recorder, noise: Noise, *shapes: tuple[int, int, int]) -> SmoothedClassifier:
    """Make a classifier that runs the recorder as it is and has passed its probe for images of these shapes."""
    images = [picture(shape, 99) for shape in shapes]
    classifier = plain(recorder, *images, noise=noise, classes=2, batch_size=BLOCK)
    for image in images:
        classifier.votes(image, 1, NoiseAddress(99))
    recorder.seen.clear()
    return classifier


def test_images_of_two_sizes_in_one_call(noise: Noise, recorder: Recorder) -> None:
    small, large = (1, 2, 2), (3, 4, 5)
    classifier = recorded(recorder, noise, small, large)
    tasks = [
        Task(picture(small if number % 2 else large, number), NoiseAddress(1, number), Votes(0, 0, count))
        for number, count in enumerate(COUNTS)
    ]
    together = classifier.count(tasks)
    assert {tuple(block.shape[1:]) for block in recorder.seen} == {small, large}
    expect_equal(together, [classifier.count([task])[0] for task in tasks])


@pytest.mark.parametrize("counts", [(1,), (BLOCK,), (BLOCK + 1,), (5, 5, 5), (15, 15), COUNTS, (1,) * 40], ids=str)
def test_a_pass_always_has_the_rows_of_a_block_and_no_pass_is_wasted(
    counts: tuple[int, ...], noise: Noise, recorder: Recorder
) -> None:
    classifier = recorded(recorder, noise, (1, 2, 2))
    answers = classifier.count(
        [Task(picture((1, 2, 2), 0), NoiseAddress(1, number), Votes(0, 0, n)) for number, n in enumerate(counts)]
    )
    assert [block.shape for block in recorder.seen] == [(BLOCK, 1, 2, 2)] * -(-sum(counts) // BLOCK)
    assert [int(answer.sum()) for answer in answers] == list(counts)


def test_padding_rows_are_copies_of_the_others_and_never_count(noise: Noise, recorder: Recorder) -> None:
    classifier = recorded(recorder, noise, (1, 2, 2))
    image = picture((1, 2, 2), 0)
    tasks = [Task(image, NoiseAddress(1, number), Votes(0, 0, 3)) for number in range(2)]
    answers = classifier.count(tasks)
    (block,) = recorder.seen
    assert torch.equal(block, block[torch.arange(BLOCK) % 6])
    first = block[:6, 0, 0, 0] >= 0.5
    for answer, rows in zip(answers, first.split(3), strict=True):
        assert answer.tolist() == [rows.sum(), 3 - rows.sum()]


def test_every_copy_is_the_one_that_its_address_says(noise: Noise, recorder: Recorder) -> None:
    """Whatever else is in the pass; copies of short blocks may lie in two passes."""
    classifier, shape = recorded(recorder, noise, (3, 4, 5)), (3, 4, 5)
    tasks = [
        Task(picture(shape, number), NoiseAddress(1, number), Votes(2, BLOCK * number, count))
        for number, count in enumerate((11, 11, BLOCK + 11))
    ]
    classifier.count(tasks)
    expected = []
    for number, count in enumerate((11, 11, BLOCK + 11)):
        pixels, out = picture(shape, number).permute(1, 2, 0), torch.empty(count, 4, 5, 3)
        noise.draw(pixels, out, Stream.at("certify", 1, number, 2), BLOCK * number)
        expected.append(out.permute(0, 3, 1, 2))
    assert torch.equal(torch.cat(recorder.seen)[: 3 * 11 + BLOCK], torch.cat(expected))


def test_every_older_copy_is_the_one_that_its_address_says(noise: Noise, recorder: Recorder) -> None:
    """Whole blocks come first; copies of short ones may lie in two passes."""
    classifier, shape = recorded(recorder, noise, (3, 4, 5)), (3, 4, 5)
    tasks = [
        Task(picture(shape, number), NoiseAddress(1, number, stream=None), Votes(2, BLOCK * number, count))
        for number, count in enumerate((11, 11, BLOCK + 11))
    ]
    classifier.count(tasks)
    expected = []
    for number, count, block in [(2, BLOCK, 2), (0, 11, 0), (1, 11, 1), (2, 11, 3)]:
        out = torch.empty(count, 4, 5, 3)
        noise.perturb(picture(shape, number).permute(1, 2, 0), out, NoiseAddress(1, number, 2).generator(block, "cpu"))
        expected.append(out.permute(0, 3, 1, 2))
    assert torch.equal(torch.cat(recorder.seen)[: 3 * 11 + BLOCK], torch.cat(expected))


@pytest.mark.parametrize("rows", [1, 5, 64, 200])
def test_copies_and_answers_do_not_depend_on_the_batch_size(rows: int, noise: Noise) -> None:
    """Packed or alone, from any copy on: linear layers of whole numbers round nothing."""
    tasks = [
        Task(picture((1, 8, 8), number), NoiseAddress(7, number), question)
        for number, count in enumerate(COUNTS)
        for question in questions(count, first=7 * number)
    ]
    whole = nn.Sequential(nn.Flatten(), Levels(), nn.Linear(64, 10, bias=False))
    whole[2].weight.data = torch.randint(-3, 4, (10, 64), generator=torch.Generator().manual_seed(0)).float()
    one, other = (plain(whole, tasks[0].image, noise=noise, classes=10, batch_size=size) for size in (BLOCK, rows))
    expect_equal(other.count(tasks), one.count(tasks))
    expect_equal([other.count([task])[0] for task in tasks], one.count(tasks))


class Levels(nn.Module):
    def forward(self, pixels: Tensor) -> Tensor:
        return (16 * pixels).round()


def test_one_call_mixes_older_and_new_streams(noise: Noise) -> None:
    classifier = classifier_of("digits_cnn", noise)
    tasks = [
        Task(picture((1, 8, 8), number), NoiseAddress(7, number, stream=stream), Votes(1, 0, count))
        for number, (count, stream) in enumerate([(5, None), (20, PHILOX), (40, None), (3, PHILOX)])
    ]
    expect_equal(classifier.count(tasks), [classifier.count([task])[0] for task in tasks])


def test_unknown_streams_are_refused() -> None:
    task = Task(picture((1, 8, 8), 0), NoiseAddress(7, stream="threefry"), Votes(1, 0, 5))
    with pytest.raises(ValueError, match="the random streams 'threefry' are not known, expected 'philox4x64'"):
        classifier_of("digits_cnn", Gaussian(0.5)).count([task])


def test_a_logit_that_is_not_finite_is_refused_in_any_row(noise: Noise) -> None:
    class Overflow(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            first = images.flatten(1).sum(1)
            return torch.stack([first, torch.where(images.flatten(1).amax(1) > 3, torch.inf, 0.0)], 1)

    classifier = plain(Overflow(), torch.zeros(1, 4, 4), noise=noise, classes=2, batch_size=BLOCK)
    with pytest.raises(ValueError, match="returned a logit that is not finite: nothing can be certified"):
        classifier.votes(torch.ones(1, 4, 4), 20_000, NoiseAddress(0))


@pytest.mark.parametrize("first", [1, BLOCK - 1, BLOCK + 1])
def test_a_question_that_begins_within_a_block_is_refused(first: int, recorder: Recorder) -> None:
    classifier, image = recorded(recorder, Gaussian(0.5), (1, 2, 2)), picture((1, 2, 2), 0)
    with pytest.raises(ValueError, match=f"copies from {first} on, expected a multiple of {BLOCK}"):
        classifier.count([Task(image, NoiseAddress(1, stream=None), Votes(0, first, BLOCK))])
    assert recorder.seen == []


def test_no_tasks_have_no_answers(recorder: Recorder) -> None:
    assert recorded(recorder, Gaussian(0.5)).count([]) == []


def test_a_wrong_image_among_the_tasks_is_refused_before_any_pass(recorder: Recorder) -> None:
    classifier = recorded(recorder, Gaussian(0.5), (1, 2, 2))
    tasks = [Task(image, NoiseAddress(0), Votes(0, 0, 5)) for image in (torch.zeros(1, 2, 2), torch.full((1, 2, 2), 2))]
    with pytest.raises(ValueError, match="floating-point pixels"):
        classifier.count(tasks)
    assert recorder.seen == []


def test_a_base_that_changes_its_input_does_not_change_later_copies(noise: Noise) -> None:
    """The rest of a block waits beside the pass for the next one."""
    images = [picture((1, 4, 4), number) for number in range(5)]
    tasks = [Task(image, NoiseAddress(1, number), Votes(0, 0, 11)) for number, image in enumerate(images)]

    def forward(change: bool) -> Callable[[Tensor], Tensor]:
        def logits(block: Tensor) -> Tensor:
            rows = block.flatten(1).clone()
            if change:
                block.zero_()
            return rows

        return logits

    kept, changed = (
        answer_tasks(tasks, noise, BLOCK, torch.device("cpu"), forward(change)) for change in (False, True)
    )
    expect_equal(changed, kept)

"""The smoothed classifier: what it counts, what its base sees, and what it refuses."""

import copy
import math
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.engines import SmoothedClassifier
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.normalisation import Normalisation, Normalise
from radii.smoothing.questions import Probabilities, Task, Votes
from radii.smoothing.streams import Stream
from tools.voters import plain

IMAGE = torch.full((3, 4, 4), 0.5)
NOISE = NoiseAddress(0, 3, 1)


class Recorder(nn.Module):
    """Keeps what it is given; answers by the sign of the first pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self.places: set[int] = set()
        self.modes: set[bool] = set()

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(images.clone())
        self.places.add(images.data_ptr())
        self.modes.add(self.training)
        first = images[:, 0, 0, 0]
        return torch.stack([first, 1 - first], 1)


def smoothed(base: nn.Module, sigma: float = 0.25, classes: int = 2, batch_size: int = 128) -> SmoothedClassifier:
    return plain(base, IMAGE, sigma=sigma, classes=classes, batch_size=batch_size)


def probed(
    base: nn.Module, recorder: Recorder, samples: int, image: Tensor = IMAGE, **fields: float
) -> SmoothedClassifier:
    """A classifier that has passed its probe for this many samples, and a recorder that has forgotten it."""
    classifier = plain(base, image, **{"sigma": 0.25, "classes": 2, **fields})
    classifier.votes(image, samples, NoiseAddress(99))
    recorder.seen.clear()
    recorder.places.clear()
    return classifier


@pytest.mark.parametrize("samples", [1, 127, 128, 129, 1_000])
def test_votes_add_up(samples: int) -> None:
    votes = smoothed(Recorder()).votes(IMAGE, samples, NOISE)
    assert votes.shape == (2,)
    assert votes.dtype == np.int64
    assert votes.sum() == samples


def test_votes_are_those_of_the_noisy_copies() -> None:
    base = Recorder()
    votes = probed(base, base, 300).votes(IMAGE, 300, NOISE)
    inputs = torch.cat(base.seen)
    assert len(inputs) == 3 * 128
    inputs = inputs[:300]
    assert votes[0] == (inputs[:, 0, 0, 0] >= 0.5).sum()


def test_noise_comes_from_the_address_and_is_added_to_the_pixels() -> None:
    base, image = Recorder(), torch.rand(3, 4, 4)
    probed(base, base, 200, image, sigma=0.3).votes(image, 200, NOISE)
    stream = Stream.at("certify", NOISE.seed, NOISE.image, NOISE.stage)
    for number, (block, rows) in enumerate(zip(base.seen, (128, 72), strict=True)):
        noise = stream.normal(128 * number, rows, 48).view(rows, 4, 4, 3)
        torch.testing.assert_close(block[:rows], image + 0.3 * noise.permute(0, 3, 1, 2))


def test_older_noise_comes_from_the_address_of_its_block() -> None:
    base, image, older = Recorder(), torch.rand(3, 4, 4), replace(NOISE, stream=None)
    probed(base, base, 200, image, sigma=0.3).votes(image, 200, older)
    for number, (block, rows) in enumerate(zip(base.seen, (128, 72), strict=True)):
        noise = torch.empty(rows, 4, 4, 3).normal_(generator=NOISE.generator(number, "cpu"))
        torch.testing.assert_close(block[:rows], image + 0.3 * noise.permute(0, 3, 1, 2))


def test_pieces_of_a_stage_add_up_to_the_stage() -> None:
    classifier = smoothed(Recorder())
    whole = classifier.votes(IMAGE, 1_000, NOISE)
    pieces = [(256, 0), (128, 2), (616, 3)]
    questions = [Votes(NOISE.stage, 128 * block, count) for count, block in pieces]
    drawn = classifier.count([Task(IMAGE, NOISE, question) for question in questions])
    assert np.array_equal(np.sum(drawn, axis=0), whole)


def test_noise_precedes_normalisation_and_is_never_clipped() -> None:
    inner = Recorder()
    normalise = Normalise(Normalisation((0.5, 0.5, 0.5), (0.1, 0.1, 0.1)))
    probed(nn.Sequential(normalise, inner), inner, 2_000, sigma=0.5).votes(IMAGE, 2_000, NOISE)
    values = torch.cat(inner.seen).flatten()
    assert values.std() == pytest.approx(0.5 / 0.1, rel=5 / math.sqrt(2 * len(values)))
    assert values.min() < -3 * 5
    assert values.max() > 3 * 5


def test_memory_is_bounded_by_one_block() -> None:
    base = Recorder()
    probed(base, base, 16, batch_size=16).votes(IMAGE, 16 * 50, NOISE)
    assert len(base.seen) == 50
    assert len(base.places) == 1


def test_block_size_is_part_of_the_older_draws_alone() -> None:
    a, b = Recorder(), Recorder()
    for address in (NOISE, replace(NOISE, stream=None)):
        a.seen.clear()
        b.seen.clear()
        probed(a, a, 128, batch_size=64).votes(IMAGE, 128, address)
        probed(b, b, 128, batch_size=128).votes(IMAGE, 128, address)
        assert torch.equal(a.seen[0], b.seen[0][:64])
        assert torch.equal(a.seen[1], b.seen[0][64:]) == (address.stream is not None)


def test_probabilities_and_their_sums() -> None:
    ask = [Probabilities(1, 0, 300), Probabilities(1, 0, 300, label=0), Probabilities(1, 0, 300, label=1)]
    sums, *values = smoothed(Recorder()).count([Task(IMAGE, NOISE, question) for question in ask])
    probabilities = np.stack(values, 1)
    assert probabilities.shape == (300, 2)
    assert probabilities.sum(1) == pytest.approx(1.0)
    assert sums == pytest.approx(probabilities.sum(0))


def test_large_sharpness_gives_votes() -> None:
    classifier = smoothed(Recorder())
    (sums,) = classifier.count([Task(IMAGE, NOISE, Probabilities(1, 0, 300, sharpness=1e9))])
    assert (sums.round() == classifier.votes(IMAGE, 300, NOISE)).all()


def test_runs_in_eval_mode_and_restores_every_mode() -> None:
    base = Recorder()
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm2d(3), base)
    model[1].eval()
    model[0].train()
    base.train()
    smoothed(model).votes(IMAGE, 10, NOISE)
    assert base.modes == {False}
    assert (model[0].training, model[1].training, base.training) == (True, False, True)


def test_restores_the_modes_after_an_error() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 3)).train()
    with pytest.raises(ValueError, match="expected"):
        smoothed(model).votes(IMAGE, 10, NOISE)
    assert all(module.training for module in model.modules())


class Faulty(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, images: Tensor) -> Tensor:
        logits = torch.zeros(len(images), 2)
        if self.kind == "random":
            return logits + F.dropout(torch.arange(1_000.0), 0.5, training=True).sum()
        if self.kind == "shape":
            return logits[0]
        logits[0, 0] = float(self.kind)
        return logits


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nan", "not finite"),
        ("inf", "not finite"),
        ("shape", r"returned \[2\] for a block of 128, expected \[128, 2\]"),
        ("random", "not deterministic in eval mode"),
    ],
)
def test_invalid_base_classifier_is_refused(kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        smoothed(Faulty(kind)).votes(IMAGE, 10, NOISE)


def test_refuses_a_base_of_other_classes() -> None:
    base = nn.Sequential(nn.Flatten(), nn.Linear(48, 10))
    with pytest.raises(
        ValueError, match=r"returned \[128, 10\] .*expected \[128, 2\]: state the number of its classes"
    ):
        smoothed(base).votes(IMAGE, 10, NOISE)


def test_refuses_an_image_that_the_base_does_not_take() -> None:
    image = torch.zeros(3, 5, 5)
    classifier = plain(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)), image, sigma=0.25, classes=2)
    with pytest.raises(ValueError, match="does not take 128 images of 3 x 5 x 5"):
        classifier.votes(image, 10, NOISE)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (torch.full((3, 4, 4), 1.01), "pixels from 1.01 to 1.01"),
        (torch.full((3, 4, 4), -0.01), "pixels from -0.01"),
        (torch.full((3, 4, 4), math.nan), "pixels from nan"),
        (torch.zeros(3, 4, 4, dtype=torch.uint8), "divide by 255"),
        (torch.zeros(1, 3, 4, 4), r"shape \[1, 3, 4, 4\].*one image"),
        (torch.zeros(4, 4), r"shape \[4, 4\]"),
    ],
)
def test_invalid_image_is_refused(image: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        smoothed(Recorder()).votes(image, 10, NOISE)


@pytest.mark.parametrize("sigma", [0.0, -0.5, math.nan, math.inf])
def test_invalid_sigma_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match=r"sigma = .*, expected a (finite )?number"):
        smoothed(Recorder(), sigma=sigma)


@pytest.mark.parametrize(("name", "value"), [("classes", 1), ("batch_size", 0)])
def test_sizes_below_the_minimum_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} = {value}, expected at least"):
        smoothed(Recorder(), **{name: value})


def test_refuses_zero_samples() -> None:
    with pytest.raises(ValueError, match="samples = 0, expected at least 1"):
        smoothed(Recorder()).votes(IMAGE, 0, NOISE)


def test_the_callers_mode_is_left_alone() -> None:
    smoothed(Recorder()).votes(IMAGE, 300, NOISE)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


class Slow(nn.Module):
    """Waits within its forward, where another thread could change its mode; dropout makes that show."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, images: Tensor) -> Tensor:
        time.sleep(0.001)
        mean = self.dropout(images).flatten(1).mean(1)
        return torch.stack([mean, 1 - mean], 1)


def test_threads_may_share_a_classifier_and_its_base() -> None:
    base = Slow().train()
    classifiers = [smoothed(base, batch_size=8), smoothed(nn.Sequential(nn.Identity(), base), batch_size=8)]
    samples = [8 * (1 + number % 4) for number in range(24)]
    alone = [classifiers[0].votes(IMAGE, n, NoiseAddress(number)).tolist() for number, n in enumerate(samples)]

    def ask(number: int) -> list[int]:
        votes: list[int] = classifiers[number % 2].votes(IMAGE, samples[number], NoiseAddress(number)).tolist()
        return votes

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(24))) == alone
    assert all(module.training for module in base.modules())


def test_threads_may_share_a_classifier_that_is_not_probed_yet() -> None:
    classifier = smoothed(Recorder())
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: classifier.votes(IMAGE, 300, NOISE).tolist(), range(8)))
    assert answers == [answers[0]] * 8


def test_a_probed_classifier_can_be_copied_and_sent_to_a_process() -> None:
    classifier = smoothed(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)))
    votes = classifier.votes(IMAGE, 300, NOISE)
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        assert np.array_equal(other.votes(IMAGE, 300, NOISE), votes)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (np.full((3, 4, 4), 0.5, np.float32), "the image is a ndarray, expected a torch.Tensor"),
        ([[0.5]], "the image is a list"),
        (None, "the image is a NoneType"),
        (torch.zeros(3, 0, 4), "it has no pixels"),
    ],
)
def test_what_is_no_image_is_named(image: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SmoothedClassifier(Recorder(), sigma=0.5, classes=2).votes(image, 8, NOISE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"classes": "10"}, "classes = '10', expected at least 2, a whole number"),
        ({"classes": 10.0}, "classes = 10.0, expected at least 2, a whole number"),
        ({"batch_size": 1.5}, "batch_size = 1.5, expected at least 1, a whole number"),
        ({"sigma": None, "noise": "gaussian"}, "noise = 'gaussian', expected a noise"),
        ({"base": abs}, "the base classifier is a builtin_function_or_method, expected a torch.nn.Module"),
    ],
    ids=str,
)
def test_an_argument_of_another_kind_is_named(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SmoothedClassifier(**{"base": Recorder(), "sigma": 0.5, "classes": 2, **fields})  # type: ignore[arg-type]


def test_a_whole_number_of_numpy_counts() -> None:
    assert SmoothedClassifier(Recorder(), sigma=0.5, classes=np.int64(2)).classes == 2  # type: ignore[arg-type]

"""Random numbers by address: published answers, the same numbers in any portions and by either implementation."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from radii.smoothing import streams
from radii.smoothing.addresses import Purpose
from radii.smoothing.streams import Counter, Draws, Joined, Part, Stream, philox

ONES = (1 << 64) - 1
PI = (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
KNOWN = (
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
    ),
    (
        (ONES, ONES, ONES, ONES),
        (ONES, ONES),
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        PI,
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
)
"""Random123's kat_vectors of philox4x64 with 10 rounds: counter, key, answer."""


def signed(*words: int) -> list[int]:
    return [word - (1 << 64) if word >= 1 << 63 else word for word in words]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_torch_integers_give_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    position = torch.tensor(signed(counter[0]))
    found = philox(position, key, Counter(counter[1], (counter[2], counter[3])))
    assert found.tolist() == [signed(*answer)]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_numpy_gives_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    found = streams._words_by_numpy(key, Counter(counter[1], (counter[2], counter[3])), counter[0], 1)
    assert found.tolist() == signed(*answer)


def test_both_implementations_give_the_same_words() -> None:
    stream = Stream.at("certify", 7, 3, 1)
    for first, count, width, lane in ((0, 3, 10, 0), (5, 2, 4, 9), (2**40, 2, 1, 1)):
        groups = -(-width // 4)
        positions = torch.arange(first * groups, (first + count) * groups)
        by_torch = philox(positions, stream.key, Counter(lane, stream.high)).view(count, 4 * groups)
        assert torch.equal(stream.words(first, count, width, lane=lane), by_torch)


@pytest.mark.parametrize("width", [1, 3, 8, 784, 3071])
def test_rows_do_not_depend_on_the_portions(width: int) -> None:
    stream = Stream.at("certify", 1, 2, 3)
    whole = stream.normal(0, 50, width)
    assert whole.shape == (50, width)
    for cut in (1, 17, 49):
        assert torch.equal(torch.cat([stream.normal(0, cut, width), stream.normal(cut, 50 - cut, width)]), whole)
    assert torch.equal(stream.uniform(30, 5, width), stream.uniform(0, 50, width)[30:35])
    assert torch.equal(stream.integers(30, 5, width, 9), stream.integers(0, 50, width, 9)[30:35])


@pytest.mark.parametrize("width", [1, 8, 3071])
def test_joined_rows_are_those_of_their_own_streams(width: int) -> None:
    judge = Stream.at("judge", 7)
    parts = [
        Part(Stream.at("certify", 7, 0), 3, 5),
        Part(Stream.at("certify", 1 << 127, 9), 0, 1),
        Part(judge, 8, 6, 2),
    ]
    joined = Joined.of(parts, torch.device("cpu"))
    assert joined.origins.tolist() == [0] * 5 + [1] + [2] * 6
    for lane in (0, 1, 1 << 40):
        own = torch.cat([stream.words(first, rows, width, lane=lane + more) for stream, first, rows, more in parts])
        assert torch.equal(joined.words(0, 12, width, lane=lane), own)
        assert torch.equal(joined.words(4, 3, width, lane=lane), own[4:7])
    own = torch.cat([stream.normal(first, rows, width, lane=more) for stream, first, rows, more in parts])
    assert torch.equal(joined.normal(0, 12, width), own)


def test_joined_rows_beyond_the_last_one_are_refused() -> None:
    last = (1 << 63) - 1
    joined = Joined.of(
        [Part(Stream.at("certify", 0), 0, 1), Part(Stream.at("certify", 1), last - 1, 1)], torch.device("cpu")
    )
    assert joined.words(0, 2, 4).shape == (2, 4)
    with pytest.raises(ValueError, match="rows of 5 words from 2 streams, expected numbers below"):
        joined.words(0, 2, 5)


@pytest.mark.parametrize(("count", "width"), [(1, 1), (5, 3), (7, 12), (200, 784), (30, 3071)])
@pytest.mark.parametrize("deviation", [1.0, 0.25, 1 / 3])
def test_normal_numbers_are_those_that_other_devices_compute(count: int, width: int, deviation: float) -> None:
    """On a CPU numpy multiplies; every bit is that of the operations of torch."""
    stream = Stream.at("certify", 4, 5, 6)
    found, expected = torch.empty(count, width), torch.empty(count, width)
    stream.fill_normal(found, 9, deviation=deviation, lane=2)
    pairs = 4 * -(-width // 8)
    streams._box_muller(stream.words(9, count, pairs, lane=2), expected, deviation)
    assert torch.equal(found.view(torch.int32), expected.view(torch.int32))


def test_no_stream_repeats() -> None:
    purposes: tuple[Purpose, ...] = ("certify", "train")
    seen = {
        tuple(Stream.at(purpose, seed, image, stage).words(row, 1, 4, lane=lane)[0].tolist())
        for purpose, seed, image, stage, row, lane in itertools.product(
            purposes, (0, 1, 2**100), range(3), range(3), range(3), range(3)
        )
    }
    assert len(seen) == 2 * 3 * 3 * 3 * 3 * 3


def test_address_parts_are_not_concatenated() -> None:
    assert Stream.at("certify", 1, 11) != Stream.at("certify", 11, 1)
    assert Stream.at("certify", 0, 1) != Stream.at("certify", 0, 1, 0)


def test_negative_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match="below 0"):
        Stream.at("certify", -1)
    with pytest.raises(ValueError, match="from row -1"):
        Stream.at("certify", 1).words(-1, 1, 4)


def test_normal_numbers_are_standard_normal() -> None:
    values = Stream.at("certify", 0, 0, 1).normal(0, 1000, 1000).double().numpy().ravel()
    assert abs(values.mean()) < 5 / 1_000
    assert abs(values.var() - 1) < 5 * np.sqrt(2) / 1_000
    assert abs((values**4).mean() - 3) < 5 * np.sqrt(96) / 1_000
    assert stats.kstest(values, "norm").pvalue > 1e-4


def test_tails_are_those_of_a_normal_distribution() -> None:
    """The share of numbers beyond 3 and 4 deviations."""
    values = Stream.at("certify", 0, 0, 2).normal(0, 2000, 2000).abs()
    for most in (3.0, 4.0):
        expected = 2 * stats.norm.sf(most) * values.numel()
        assert abs(int((values > most).sum()) - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize(("bits", "radius"), [(0, 9.345), (-1, 0.0)])
def test_tails_reach_nine_deviations(monkeypatch: pytest.MonkeyPatch, bits: int, radius: float) -> None:
    """The smallest of the 63 bits of a radius gives 9.35, the largest 0; neither is infinite."""
    monkeypatch.setattr(Stream, "words", lambda _, __, count, width, **___: torch.full((count, width), bits))
    found = Stream((0, 0), (0, 0)).normal(0, 1, 8)
    assert found.isfinite().all()
    assert float(found.abs().max()) == pytest.approx(radius, abs=1e-3)


def test_pairs_of_numbers_and_of_rows_are_uncorrelated() -> None:
    values = Stream.at("certify", 5).normal(0, 20_000, 16).double().numpy()
    rows = np.corrcoef(np.concatenate([values[:-1], values[1:]], axis=1), rowvar=False)
    assert np.abs(rows - np.eye(32)).max() < 5.5 / math.sqrt(20_000)
    squares = np.corrcoef(values**2, rowvar=False)
    assert np.abs(squares - np.eye(16)).max() < 5.5 / math.sqrt(20_000)


def test_uniform_numbers_and_integers() -> None:
    stream = Stream.at("augment", 0)
    values = stream.uniform(0, 100, 1000)
    assert float(values.min()) >= 0
    assert float(values.max()) < 1
    assert stats.kstest(values.numpy().ravel(), "uniform").pvalue > 1e-4
    counts = stream.integers(0, 100, 1000, 9).flatten().bincount(minlength=9)
    assert len(counts) == 9
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4
    with pytest.raises(ValueError, match="below 0, expected"):
        stream.integers(0, 1, 1, 0)


def test_permutations_are_uniform() -> None:
    orders = [tuple(Stream.at("shuffle", 0, epoch).permutation(4).tolist()) for epoch in range(2400)]
    counts = [orders.count(order) for order in itertools.permutations(range(4))]
    assert sum(counts) == 2400
    assert stats.chisquare(counts).pvalue > 1e-4
    assert Stream.at("shuffle", 0).permutation(0).tolist() == []


def test_draws_take_new_numbers_each_time() -> None:
    draws, again = Draws(Stream.at("train", 0, 1)), Draws(Stream.at("train", 0, 1))
    first, second = draws.normal(3, 2, 5), draws.normal(3, 2, 5)
    assert first.shape == (3, 2, 5)
    assert not torch.equal(first, second)
    assert torch.equal(again.normal(2, 2, 5), first[:2])
    assert torch.equal(again.normal(3, 2, 5), second)
    assert draws.uniform(7).shape == (7,)
    assert draws.integers(3, 7).shape == (7,)
    assert sorted(draws.permutation(7).tolist()) == list(range(7))


def test_threads_do_not_share_a_position() -> None:
    from concurrent.futures import ThreadPoolExecutor

    expected = [Stream.at("certify", 0, image).words(0, 64, 256) for image in range(16)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda image: Stream.at("certify", 0, image).words(0, 64, 256), range(16)))
    assert all(map(torch.equal, found, expected))


def test_a_device_that_counts_wrongly_gets_words_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "philox", lambda positions, *_: torch.zeros(*positions.shape, 4, dtype=torch.int64))
    streams.counts_right.cache_clear()
    assert not streams.counts_right(torch.device("cpu"))
    streams.counts_right.cache_clear()


@pytest.mark.parametrize("width", [1, 3, 4, 7, 9])
def test_rows_near_the_last_one(width: int) -> None:
    """The integers of torch, which other devices compute with, give the words of numpy there too."""
    stream, groups = Stream.at("certify", 0, 1), -(-width // 4)
    count = 3
    first = streams.LARGEST // groups - count
    words = stream.words(first, count, width)
    positions = torch.tensor([first * groups + place for place in range(count * groups)])
    assert torch.equal(philox(positions, stream.key, Counter(0, stream.high)).view(count, -1), words)
    assert torch.equal(stream.words(first + 1, 1, width), words[1:2])
    assert stream.normal(first // 2, 2, width).isfinite().all()
    with pytest.raises(ValueError, match="expected numbers below"):
        stream.words(first + 1, count, width)

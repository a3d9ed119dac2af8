"""Random streams of addresses: standard normal, distinct and reproducible."""

import itertools
from typing import get_args

import numpy as np
import pytest
import torch
from scipy import stats

from radii.smoothing.addresses import NoiseAddress, Purpose, entropy, generator


def draw(address: NoiseAddress, block: int = 0, count: int = 4) -> tuple[float, ...]:
    return tuple(torch.randn(count, generator=address.generator(block, "cpu")).tolist())


def test_is_standard_normal() -> None:
    blocks = [torch.randn(10_000, generator=NoiseAddress(0, 1, 2).generator(block, "cpu")) for block in range(100)]
    values = torch.cat(blocks).double().numpy()
    assert abs(values.mean()) < 5 / 1_000
    assert abs(values.var() - 1) < 5 * np.sqrt(2) / 1_000
    assert stats.kstest(values, "norm").pvalue > 1e-4


def test_blocks_are_uncorrelated() -> None:
    first, second = (np.array(draw(NoiseAddress(0), block, 100_000)) for block in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(100_000)


def test_no_stream_repeats() -> None:
    seen = {
        draw(NoiseAddress(seed, image, stage), block)
        for seed, image, stage, block in itertools.product((0, 1, 2**100), range(12), range(6), range(12))
    }
    assert len(seen) == 3 * 12 * 6 * 12


def test_address_parts_are_not_concatenated() -> None:
    assert draw(NoiseAddress(1, 11)) != draw(NoiseAddress(11, 1))
    assert draw(NoiseAddress(0, 2**32)) != draw(NoiseAddress(0, 0, 1))


def test_equal_addresses_draw_the_same_noise() -> None:
    assert draw(NoiseAddress(3, 4, 5), 6) == draw(NoiseAddress(3, 4).at(2).at(5), 6)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_mersenne_twister_words_are_at_the_expected_place(seed: int) -> None:
    """manual_seed(s) seeds the 624 words of the Mersenne Twister with s; they are words 3 to 626 of the state."""
    words = torch.Generator().manual_seed(seed).get_state().numpy().view(np.uint64)
    assert words[3] == seed
    expected = np.random.RandomState(seed).get_state(legacy=False)["state"]["key"]
    assert (words[3:627] == expected).all()


def test_all_mersenne_twister_words_come_from_the_address() -> None:
    words = generator("cpu", "certify", 1, 2, 3, 4).get_state().numpy().view(np.uint64)[3:627]
    assert (words == np.random.SeedSequence((1, 2, 3, 4)).generate_state(624, np.uint32)).all()


def test_certificates_and_training_noise_keep_their_streams() -> None:
    assert entropy("certify", 0, 20, 1, 7) == (0, 20, 1, 7)
    assert entropy("train", 3, 4, 5) == (2, 3, 4, 5, 0)


NUMBERS = (0, 1, 2, 3, 2**32, 2**32 + 2, 2**100)


def test_no_purpose_shares_a_stream_with_another() -> None:
    """Four, five and eight words of 32 bits: a seed sequence pads shorter ones with zeros and joins longer numbers."""
    addresses = [address for count in range(5) for address in itertools.product(NUMBERS, repeat=count)]
    seeds = [entropy(purpose, *address) for purpose in get_args(Purpose) for address in addresses]
    assert {len(words) for words in seeds} == {4, 5, 8}
    assert all(0 <= word < 2**32 for words in seeds for word in words)
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(
    ("purpose", "address", "other"),
    [
        ("shuffle", (4, 2), draw(NoiseAddress(0, 4, 2))),
        ("augment", (0, 1, 2), draw(NoiseAddress(1, 0, 1), 2)),
        ("evaluate", (0, 1), draw(NoiseAddress(3, 0, 1))),
        ("probe", (), draw(NoiseAddress(0))),
        ("calibrate", (), draw(NoiseAddress(1))),
        ("train", (5, 6, 7), draw(NoiseAddress(2 + 5 * 2**32, 6, 7))),
        ("soft_labels", (0, 0, 1, 0), draw(NoiseAddress(0, 0, 1))),
    ],
)
def test_formerly_shared_streams_are_separate(
    purpose: Purpose, address: tuple[int, ...], other: tuple[float, ...]
) -> None:
    first = torch.randn(4, generator=generator("cpu", purpose, *address))
    assert tuple(first.tolist()) != other

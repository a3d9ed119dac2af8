"""The noise of an address: Gaussian, its own, and the same wherever it is drawn."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from radii.smoothing.noise import NoiseAddress, generator, logits_of, noisy_copies


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


def test_an_address_is_no_number_written_in_digits() -> None:
    assert draw(NoiseAddress(1, 11)) != draw(NoiseAddress(11, 1))
    assert draw(NoiseAddress(0, 2**32)) != draw(NoiseAddress(0, 0, 1))


def test_an_address_draws_the_same_again() -> None:
    assert draw(NoiseAddress(3, 4, 5), 6) == draw(NoiseAddress(3, 4).at(2).at(5), 6)


def test_the_rest_of_a_stage_continues_it() -> None:
    address = NoiseAddress(3, 4, 5)
    assert draw(address.from_block(7), 2) == draw(address, 9)
    assert address.from_block(7).at(5) == address


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_the_twister_lies_where_we_write_it(seed: int) -> None:
    """manual_seed(s) starts the twister's 624 words with s; words 3 to 626 of the state hold them."""
    words = torch.Generator().manual_seed(seed).get_state().numpy().view(np.uint64)
    assert words[3] == seed
    expected = np.random.RandomState(seed).get_state(legacy=False)["state"]["key"]
    assert (words[3:627] == expected).all()


def test_all_words_of_the_twister_come_from_the_address() -> None:
    words = generator("cpu", 1, 2).get_state().numpy().view(np.uint64)[3:627]
    assert (words == np.random.SeedSequence((1, 2)).generate_state(624, np.uint32)).all()


def test_copies_are_one_draw() -> None:
    images = torch.rand(2, 1, 3, 3)
    copies = noisy_copies(images, 4, 0.5, torch.Generator().manual_seed(0))
    noise = torch.randn((4, 2, 1, 3, 3), generator=torch.Generator().manual_seed(0))
    assert torch.equal(copies, noise * 0.5 + images)


def test_logits_of_copies_keep_their_axes() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(9, 5))
    copies = torch.rand(4, 2, 1, 3, 3)
    logits = logits_of(model, copies)
    assert logits.shape == (4, 2, 5)
    torch.testing.assert_close(logits[3, 1], model(copies[3, 1:2])[0])


def counted(layers: list[nn.Module]) -> tuple[nn.Sequential, list[int]]:
    torch.manual_seed(0)
    model = nn.Sequential(*layers).double()
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    return model, sizes


def test_many_inputs_go_piece_by_piece_and_nobody_can_tell() -> None:
    model, sizes = counted([nn.Flatten(), nn.Linear(4, 3)])
    copies = torch.rand(4, 300, 1, 2, 2, dtype=torch.float64)
    found = []
    for logits in (logits_of(model, copies), model(copies.flatten(0, 1)).view(4, 300, 3)):
        found.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
    assert sizes == [256, 256, 256, 256, 176, 1200]
    for ours, whole in zip(*found, strict=True):
        torch.testing.assert_close(ours, whole, rtol=1e-12, atol=1e-12)


def test_batch_statistics_see_all_inputs_at_once() -> None:
    norm = nn.BatchNorm1d(4)
    model, sizes = counted([nn.Flatten(), norm])
    copies = torch.rand(4, 300, 1, 2, 2, dtype=torch.float64)
    logits_of(model, copies)
    assert sizes == [1200]
    assert norm.num_batches_tracked == 1
    logits_of(model.eval(), copies)
    assert len(sizes) == 1 + 5
    norm.running_mean = norm.running_var = None  # as with track_running_stats=False
    logits_of(model, copies)
    assert sizes[-1] == 1200

"""The exact group-sequential test: its error by independent recursions, its looks, its tests of several thresholds."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.signal import fftconvolve
from scipy.special import ndtr

from radii.smoothing import sequential

LOOKS = sequential.looks_until(100_000)
THRESHOLDS = [float(ndtr(radius)) for radius in np.arange(0, 3.51, 0.25)]


def crossing_sample_by_sample(probability: float, looks: Sequence[int], accept: Sequence[int]) -> Fraction:
    """The crossing probability in exact arithmetic, one sample at a time."""
    heads = Fraction(probability)
    running, crossed, boundary = {0: Fraction(1)}, Fraction(0), dict(zip(looks, accept, strict=True))
    for toss in range(1, looks[-1] + 1):
        after: dict[int, Fraction] = {}
        for hits, chance in running.items():
            after[hits] = after.get(hits, Fraction(0)) + chance * (1 - heads)
            after[hits + 1] = after.get(hits + 1, Fraction(0)) + chance * heads
        least = boundary.get(toss, toss + 1)
        crossed += sum((chance for hits, chance in after.items() if hits >= least), Fraction(0))
        running = {hits: chance for hits, chance in after.items() if hits < least}
    return crossed


def crossing_by_fourier_transform(probability: float, looks: Sequence[int], accept: Sequence[int]) -> float:
    """The crossing probability over all possible counts, without a window."""
    running, crossed = np.ones(1), 0.0
    for before, look, least in zip((0, *looks), looks, accept, strict=False):
        steps = stats.binom.pmf(np.arange(look - before + 1), look - before, probability)
        running = fftconvolve(running, steps)
        crossed += running[least:].sum()
        running[least:] = 0.0
    return crossed


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_error_is_at_most_the_failure_and_falls_with_the_probability(threshold: float) -> None:
    accept = sequential.design(threshold, 0.001, LOOKS, 0.002).accept
    errors = [
        sequential.crossing_probability(probability, LOOKS, accept)
        for probability in (threshold / 2, threshold - 1e-3, threshold - 1e-5, threshold)
    ]
    assert errors == sorted(errors)
    assert 0.0006 < errors[-1] <= 0.001 * (1 + 1e-9)


@pytest.mark.parametrize("threshold", [THRESHOLDS[0], THRESHOLDS[4], THRESHOLDS[-1]])
def test_error_against_a_fourier_transform(threshold: float) -> None:
    accept = sequential.design(threshold, 0.001, LOOKS, 0.002).accept
    expected = crossing_by_fourier_transform(threshold, LOOKS, accept)
    assert sequential.crossing_probability(threshold, LOOKS, accept) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("looks", [(64,), (64, 100, 130), (10, 11, 12, 13, 60)])
@pytest.mark.parametrize("threshold", [0.5, 0.69, 0.97])
def test_error_against_exact_arithmetic(threshold: float, looks: tuple[int, ...]) -> None:
    spending = sequential.spending(0.05, looks)
    accept = sequential.boundaries(threshold, looks, spending)
    exact = crossing_sample_by_sample(threshold, looks, accept)
    assert exact <= Fraction(0.05)
    assert sequential.crossing_probability(threshold, looks, accept) == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_boundaries_are_the_lowest_that_the_spending_allows(threshold: float) -> None:
    looks, spent = (20, 40, 80), 0.0
    spending = sequential.spending(0.05, looks)
    accept = sequential.boundaries(threshold, looks, spending)
    for count in range(1, len(looks) + 1):
        allowed = sum(spending[:count])
        spent = float(crossing_sample_by_sample(threshold, looks[:count], accept[:count]))
        lower = (*accept[: count - 1], accept[count - 1] - 1)
        assert spent <= allowed < float(crossing_sample_by_sample(threshold, looks[:count], lower))


def test_one_look_is_the_test_of_fixed_size() -> None:
    (least,) = sequential.boundaries(0.5, (1_000,), [0.001])
    assert stats.binom.sf(least - 1, 1_000, 0.5) <= 0.001 < stats.binom.sf(least - 2, 1_000, 0.5)


@pytest.mark.parametrize("failure", [1e-12, 0.3, 0.9])
def test_extreme_failures(failure: float) -> None:
    looks = sequential.looks_until(2_000)
    accept = sequential.design(0.6, failure, looks, 0.002).accept
    assert failure / 2 < sequential.crossing_probability(0.6, looks, accept) <= failure * (1 + 1e-9)


def test_boundary_of_zero_hits_is_always_crossed() -> None:
    assert sequential.crossing_probability(0.5, (10, 20, 30), (0, 5, 5)) == pytest.approx(1.0)


@pytest.mark.parametrize("most", [1, 63, 64, 65, 128, 1_000, 100_000, 1_000_000])
def test_looks(most: int) -> None:
    looks = sequential.looks_until(most)
    assert looks[-1] == most
    assert looks[0] == min(64, most)
    steps = [after - before for before, after in itertools.pairwise(looks)]
    assert all(step % 128 == 0 for step in steps[:-1])
    assert all(step > 0 for step in steps)


def test_spending_adds_up() -> None:
    for most in (50, 100, 100_000):
        looks = sequential.looks_until(most)
        spending = sequential.spending(0.001, looks)
        assert len(spending) == len(looks)
        assert sum(spending) == pytest.approx(0.001, rel=1e-14)
        assert min(spending) > 0


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.9998])
def test_futility_boundaries_follow_the_binomial_quantile(threshold: float) -> None:
    accept, give_up = sequential.design(threshold, 0.001, LOOKS, 0.002)
    (worth,) = {stats.beta.ppf(0.99, accept[-1], LOOKS[-1] - accept[-1] + 1)}
    assert stats.binom.sf(accept[-1] - 1, LOOKS[-1], worth) == pytest.approx(0.99)
    assert list(give_up) == [stats.binom.ppf(0.002, look, worth) - 1 for look in LOOKS]
    assert all(most < least for most, least in zip(give_up, accept, strict=True))


def test_zero_futility_never_gives_up() -> None:
    assert set(sequential.design(0.8, 0.001, LOOKS, 0.0).give_up) == {-1}


def test_the_last_look_keeps_the_power_of_a_fixed_test() -> None:
    """At 3.5 sigma one hit more costs a percent of the images: the last boundary must equal the fixed test's."""
    threshold = THRESHOLDS[-1]
    fixed = int(stats.binom.isf(0.001, 100_000, threshold)) + 1
    assert sequential.design(threshold, 0.001, LOOKS, 0.002).accept[-1] == fixed


def test_designs_are_cached() -> None:
    first = sequential.sequential_tests((0.5, 0.7), 0.01, 5_000, 0.01)
    assert sequential.sequential_tests((0.5, 0.7), 0.01, 5_000, 0.01) is first


@pytest.mark.parametrize("probability", [0.5, 0.6914624612740131, 0.75])
def test_a_threshold_is_proven_only_with_all_below_it(probability: float) -> None:
    """Simulated tests: the number proven never falls, and one is proven when it and all below it have been crossed."""
    tests = sequential.sequential_tests((0.5, float(ndtr(0.5)), float(ndtr(1.0))), 0.05, 2_000, 0.01)
    rng = np.random.default_rng(5)
    hits = np.zeros(2_000, dtype=np.int64)
    crossed, level, drawn = np.zeros((2_000, 3), dtype=np.bool_), np.zeros(2_000, dtype=np.int64), 0
    ever = crossed.copy()
    for look, samples in enumerate(tests.looks):
        hits += rng.binomial(samples - drawn, probability, 2_000)
        drawn = samples
        crossed, proven, stop = tests.update(look, hits, crossed)
        ever |= hits[:, None] >= tests.accept[look]
        assert (proven >= level).all()
        assert (proven == [list(row).index(False) if not row.all() else 3 for row in ever]).all()
        assert stop[proven == 3].all()
        level = proven
    false = (level > np.searchsorted([0.5, float(ndtr(0.5)), float(ndtr(1.0))], probability)).mean()
    assert false <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 2_000)

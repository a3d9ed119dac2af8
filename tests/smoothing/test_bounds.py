"""Binomial and mean bounds: published values, an independent implementation, monotonicity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from radii.smoothing import bounds
from radii.smoothing.noise import Gaussian

samples_and_hits = st.integers(1, 100_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
failures = st.floats(1e-6, 0.4)


@pytest.mark.parametrize(
    ("hits", "samples", "lower"),
    [
        (100_000, 100_000, 0.9999309248330094),
        (99_000, 100_000, 0.9889893403774748),
        (90_000, 100_000, 0.8970364962238291),
        (51_000, 100_000, 0.5051093492440559),
        (100, 100, 0.933254300796991),
        (1_000, 1_000, 0.99311604842093),
    ],
)
def test_published_lower_bounds(hits: int, samples: int, lower: float) -> None:
    assert bounds.binomial_lower(hits, samples, 0.001) == pytest.approx(lower, rel=1e-10)


@pytest.mark.parametrize(("power", "radius"), [(3, 2.46326), (4, 3.19858), (5, 3.81146), (6, 4.34677)])
def test_largest_radius(power: int, radius: float) -> None:
    lower = bounds.binomial_lower(10**power, 10**power, 0.001)
    assert Gaussian(1.0).radius(lower) == pytest.approx(radius, abs=5e-6)


def test_largest_radius_of_cohens_defaults() -> None:
    lower = bounds.binomial_lower(100_000, 100_000, 0.001)
    assert Gaussian(1.0).radius(lower) == pytest.approx(3.8114565633899, rel=1e-10)
    assert Gaussian(0.25).radius(lower) == pytest.approx(0.95286, abs=5e-6)


def test_fewest_hits_of_cohens_defaults() -> None:
    assert bounds.binomial_lower(50_490, 100_000, 0.001) >= 0.5
    assert bounds.binomial_lower(50_489, 100_000, 0.001) == pytest.approx(0.49999895, abs=5e-9)


def test_no_hits_and_no_misses() -> None:
    assert bounds.binomial_lower(0, 10, 0.1) == 0.0
    assert bounds.binomial_upper(10, 10, 0.1) == 1.0


@settings(max_examples=200)
@given(samples_and_hits, failures)
def test_binomial_bounds_against_beta_quantiles(counts: tuple[int, int], failure: float) -> None:
    samples, hits = counts
    if hits:
        expected = stats.beta.ppf(failure, hits, samples - hits + 1)
        assert bounds.binomial_lower(hits, samples, failure) == pytest.approx(expected, rel=1e-8)
    if hits < samples:
        expected = stats.beta.isf(failure, hits + 1, samples - hits)
        assert bounds.binomial_upper(hits, samples, failure) == pytest.approx(expected, rel=1e-8)


@settings(max_examples=200)
@given(samples_and_hits, failures)
def test_lower_bound_inverts_the_binomial_tail(counts: tuple[int, int], failure: float) -> None:
    samples, hits = counts
    lower = bounds.binomial_lower(hits, samples, failure)
    if hits:
        assert stats.binom.sf(hits - 1, samples, lower) == pytest.approx(failure, rel=1e-6)


@settings(max_examples=200)
@given(samples_and_hits, failures)
def test_bounds_are_monotone_and_contain_the_estimate(counts: tuple[int, int], failure: float) -> None:
    samples, hits = counts
    lower, upper = bounds.binomial_lower(hits, samples, failure), bounds.binomial_upper(hits, samples, failure)
    assert 0 <= lower <= hits / samples <= upper <= 1
    assert bounds.binomial_lower(hits, samples, failure / 2) <= lower
    assert bounds.binomial_upper(hits, samples, failure / 2) >= upper
    if hits < samples:
        assert bounds.binomial_lower(hits + 1, samples, failure) > lower
        assert bounds.binomial_upper(hits + 1, samples, failure) > upper


@pytest.mark.parametrize(("top", "share", "radius"), [(0.7, 0.5, 0.766), (0.9, 0.3, 1.559), (0.45, 0.5, 0.223)])
def test_runner_up_gain(top: float, share: float, radius: float) -> None:
    """At 100,000 samples, where the runner-up has a given share of the rest."""
    samples = 100_000
    lower = bounds.binomial_lower(round(top * samples), samples, 0.0005)
    upper = bounds.binomial_upper(round(share * (1 - top) * samples), samples, 0.0005)
    assert Gaussian(1.0).radius(lower, upper) == pytest.approx(radius, abs=6e-4)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_coin_p_value_equals_the_exact_binomial_test(counts: tuple[int, int]) -> None:
    tosses, heads = counts
    expected = stats.binomtest(heads, tosses, 0.5).pvalue
    assert bounds.coin_p_value(heads, tosses) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("tosses", "fewest"), [(100, 67), (1_000, 553)])
def test_published_decisions(tosses: int, fewest: int) -> None:
    assert bounds.coin_p_value(fewest, tosses) <= 0.001 < bounds.coin_p_value(fewest - 1, tosses)


def test_ten_samples_never_decide() -> None:
    assert bounds.coin_p_value(10, 10) == pytest.approx(0.00195, abs=5e-6)
    assert bounds.fewest_to_predict(0.001) == 11


@pytest.mark.parametrize("failure", [0.3, 0.05, 0.001, 1e-9])
def test_fewest_samples(failure: float) -> None:
    fewest = bounds.fewest_to_certify(failure)
    assert 0.5**fewest <= failure < 0.5 ** (fewest - 1)
    fewest = bounds.fewest_to_predict(failure)
    assert bounds.coin_p_value(fewest, fewest) <= failure < bounds.coin_p_value(fewest - 1, fewest - 1)


def test_published_soft_bounds() -> None:
    bernstein = bounds.bernstein_lower(1.0, 0.0, 100_000, 0.001)
    assert Gaussian(1.0).radius(bernstein) == pytest.approx(3.57167, abs=5e-6)
    hoeffding = bounds.hoeffding_lower(1.0, 100_000, 0.001)
    assert Gaussian(1.0).radius(hoeffding) == pytest.approx(2.51945, abs=5e-6)


@pytest.mark.parametrize("mean", [0.5, 0.9, 0.99])
def test_mean_bounds_hold(mean: float) -> None:
    runs, samples, failure = 20_000, 200, 0.05
    hits = np.random.default_rng(0).binomial(samples, mean, runs)
    missed = {"bernstein": 0, "hoeffding": 0}
    for count, times in zip(*np.unique(hits, return_counts=True), strict=True):
        share = count / samples
        variance = share * (1 - share) * samples / (samples - 1)
        missed["bernstein"] += times * (bounds.bernstein_lower(share, variance, samples, failure) > mean)
        missed["hoeffding"] += times * (bounds.hoeffding_lower(share, samples, failure) > mean)
    assert max(missed.values()) <= failure * runs + 5 * math.sqrt(runs * failure * (1 - failure))

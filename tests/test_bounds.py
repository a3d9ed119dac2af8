"""The public bounds: exact by enumeration, radii there and back, wrong numbers in sentences."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom

from radii import bounds


@pytest.mark.parametrize("probability", [0.5, 0.83, 0.99])
def test_bounds_of_both_sides_fail_as_rarely_as_stated(probability: float) -> None:
    hits = np.arange(61)
    chances = binom.pmf(hits, 60, probability)
    lower = np.array([bounds.clopper_pearson_lower(int(each), 60, 0.01) for each in hits])
    upper = np.array([bounds.clopper_pearson_upper(int(each), 60, 0.01) for each in hits])
    assert chances[lower > probability].sum() <= 0.01
    assert chances[upper < probability].sum() <= 0.01


def test_probability_for_inverts_radius() -> None:
    for radius in (0.0, 0.3, 1.2):
        assert bounds.radius(bounds.probability_for(radius, sigma=0.5), sigma=0.5) == pytest.approx(radius)
    assert bounds.radius(0.3, sigma=0.5) == 0.0
    assert bounds.radius(1.0, sigma=0.5) == math.inf
    assert bounds.two_class_radius(0.6, 0.1, sigma=0.5) > bounds.radius(0.6, sigma=0.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bounds.clopper_pearson_lower(11, 10, 0.1), "hits = 11 of samples = 10"),
        (lambda: bounds.clopper_pearson_upper(1.5, 10, 0.1), "hits = 1.5"),  # type: ignore[arg-type]
        (lambda: bounds.clopper_pearson_lower(1, 10, 0.0), "failure = 0.0, expected a number > 0 and < 1"),
        (lambda: bounds.radius(1.1, 0.5), "probability = 1.1"),
        (lambda: bounds.radius(0.9, 0.0), "sigma = 0.0"),
        (lambda: bounds.probability_for(-1, 0.5), "radius = -1"),
        (lambda: bounds.betting_lower_mean([2.0], 0.1), "values should be"),
    ],
)
def test_wrong_numbers_are_errors_in_one_sentence(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()  # type: ignore[operator]


def test_no_torch_is_needed() -> None:
    code = "import sys, radii; radii.bounds.radius(0.9, 0.5); assert 'torch' not in sys.modules; print(dir(radii))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "certify_dataset" in done.stdout

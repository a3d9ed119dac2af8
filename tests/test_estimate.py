"""Estimates of the time left: from samples, images in flight included."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from radii import certifiers
from radii.estimate import TimeLeft, Work, mean_samples
from tools.scaling.workers import Machines, simulate

BUSY = Machines(2, 0.001, start=5.0)
"""Two slow workers."""
EASY = np.full(600, 0.95)
MIXED = np.random.default_rng(0).permutation(
    np.concatenate([np.full(480, 0.99), np.full(90, 0.9), np.full(30, 0.852)])  # the last need most of the samples
)

Seen = list[tuple[float, tuple[float, float]]]


def watch(certifier: str, fields: dict[str, Any], probabilities: NDArray[np.float64]) -> tuple[float, Seen]:
    """Return how long a simulated certification takes, and what was shown when."""
    left, seen = TimeLeft(), Seen()

    def on_work(work: Callable[[], Work], now: float) -> None:
        left.update(work, now)
        if shown := left.range():
            seen.append((now, shown))

    chosen = certifiers.create(certifier, **fields)
    return simulate(chosen, probabilities, BUSY, 128, on_work=on_work).seconds, seen


@pytest.mark.parametrize("probabilities", [EASY, MIXED], ids=["easy", "mixed"])
@pytest.mark.parametrize(
    ("certifier", "fields"),
    [
        ("fixed", {"selection": 100, "estimation": 2_000}),
        ("fixed", {"selection": 100, "estimation": 2_000, "radius": 0.5}),  # all images are asked about in turn
        ("sequential", {"radii": (0.0, 0.25, 0.5), "most_samples": 10_000}),
    ],
    ids=["fixed", "radius", "sequential"],
)
def test_time_left_is_right_early(certifier: str, fields: dict[str, Any], probabilities: NDArray[np.float64]) -> None:
    total, seen = watch(certifier, fields, probabilities)
    assert seen[0][0] < total / 8
    for now, (least, most) in seen:
        assert least <= 3 * (total - now) + 5
        assert most >= (total - now) / 3
    later = [(total - now, ends) for now, ends in seen if total / 4 < now < 3 * total / 4]
    assert np.median([most / least for _, (least, most) in later]) < 1.5
    assert 0.75 < np.median([least / truth for truth, (least, _) in later]) < 1.5


def test_mean_of_finished_images_is_exact() -> None:
    assert mean_samples({100: 3, 500: 1}, [], math.inf) == (200.0, 200.0)


def test_unfinished_images_count_as_those_that_went_as_far() -> None:
    """One of two that reached 300 samples ended at 500: so does the one in flight."""
    assert mean_samples({100: 2, 500: 1}, [300], 10_000) == (300.0, 300.0)


def test_unfinished_images_beyond_all_others_may_need_the_most() -> None:
    least, most = mean_samples({100: 3}, [200], 1_000)
    assert (least, most) == pytest.approx((125.0, 325.0))
    assert mean_samples({}, [200, 200], math.inf) == (200.0, math.inf)


def test_speed_is_that_of_the_last_half_minute() -> None:
    left = TimeLeft()
    for second in range(1_000):
        samples = 100 * min(second, 500) + 10 * max(0, second - 500)  # the machine is busy from then on
        left.update(partial(Work, samples, float(second), 1_000, 1_000), float(second))
    assert left.range() == pytest.approx((100.0, 100.0))


def test_nothing_is_stated_before_work_is_done() -> None:
    assert TimeLeft().range() is None

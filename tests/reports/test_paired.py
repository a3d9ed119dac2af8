"""The paired difference of two inputs."""

import numpy as np
import pytest

from radii.reports.metrics import Summary, paired_difference, paired_differences
from radii.runs.certificates import Certificates, Row

HEADER = {"procedure": "fixed", "parameters": {"failure": 0.001}}


def summary(radii: list[float], **header: object) -> Summary:
    rows = [Row(index, 1, 1 if radius >= 0 else 2, max(radius, 0.0), 1.0) for index, radius in enumerate(radii)]
    return Summary(Certificates("a", rows, {**HEADER, **header}))


def test_differences_are_those_of_the_shares_at_every_radius() -> None:
    rng = np.random.default_rng(0)
    one, other = (summary([float(r) for r in rng.uniform(-0.2, 1, 200).round(2)]) for _ in range(2))
    radii = [0.0, 0.01, 0.25, 0.5, 0.99, 1.0, 2.0]
    for radius, difference in zip(radii, paired_differences(one, other, radii), strict=True):
        assert difference is not None
        assert difference.value == pytest.approx(one.at(radius).value - other.at(radius).value)
        assert difference.lower <= difference.value <= difference.upper


def test_inputs_that_do_not_compare_have_no_difference() -> None:
    one = summary([0.5, 0.5])
    assert paired_differences(one, summary([0.5, 0.5, 0.5]), [0.25]) == [None]
    assert paired_differences(one, summary([0.5, 0.5], parameters={"failure": 0.01}), [0.25]) == [None]


def test_untested_radii_have_no_difference() -> None:
    tested = {"procedure": "sequential", "parameters": {"radii": [0.25], "failure": 0.001}}
    one, other = summary([0.25, 0.25], **tested), summary([0.25, 0.0], **tested)
    assert [difference is None for difference in paired_differences(one, other, [0.0, 0.25, 0.5])] == [
        True,
        False,
        True,
    ]


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        gained, lost, _ = rng.multinomial(150, [0.12, 0.05, 0.83])
        difference = paired_difference(int(gained), int(lost), 150)
        inside += difference.lower <= 0.07 <= difference.upper
    assert inside / 2000 > 0.935

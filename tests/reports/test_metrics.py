"""Shares, radii and intervals of certificates."""

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radii.reports.metrics import Share, Summary, Value, in_words, radii_of, shown, thinned
from radii.reports.text import down, up
from radii.runs.certificates import Certificates, Row, read
from radii.smoothing.bounds import binomial_lower, binomial_upper

ROWS = [
    Row(0, 1, 1, 0.5, 1.0, 100),
    Row(1, 1, 2, 9.0, 1.0, 100),
    Row(2, 1, 1, 0.25, 2.0, 300),
    Row(3, 1, -1, 0.0, 0.5, 100),
]
ACCURACY = Summary(Certificates("a", ROWS, {"parameters": {"failure": 0.01}}))
PUBLISHED = {
    "cohen": 0.5251,
    "stab": 0.5312,
    "salman": 0.6841,
    "macer": 0.6910,
    "consistency": 0.7195,
    "smoothmix": 0.7356,
    "cat-rs": 0.7571,
}


def test_shares_are_of_all_images_and_a_radius_counts_at_itself() -> None:
    assert [ACCURACY.at(r).hits for r in (0.0, 0.25, 0.2500001, 0.5, 0.51)] == [2, 2, 1, 1, 0]
    assert ACCURACY.clean == Share(2, 4)
    assert ACCURACY.abstained == Share(1, 4)
    assert ACCURACY.acr == 0.75 / 4
    assert (ACCURACY.samples, ACCURACY.seconds) == (600, 4.5)
    assert Summary(Certificates("a", [*ROWS, Row(4, 1, 1, 0.1, 0.0)])).samples is None


def test_the_interval_allows_for_failure_at_its_lower_end_only() -> None:
    lower, upper = ACCURACY.interval(0.25)
    assert lower == pytest.approx((binomial_lower(2, 4, 0.025) - 0.01) / 0.99)
    assert upper == pytest.approx(binomial_upper(2, 4, 0.025))
    assert Share(250, 500).interval() == pytest.approx((0.4553, 0.5447), abs=1e-4)
    assert Share(0, 4).interval(0.5)[0] == 0.0


def test_radii_reach_the_largest_certificate_and_at_least_three_quarters() -> None:
    assert radii_of([ACCURACY])[-1] == 9.0
    small = Summary(Certificates("a", ROWS[2:]))
    assert radii_of([small]) == [0.0, 0.25, 0.5, 0.75]
    assert thinned(radii_of([ACCURACY]), 16) == [0.75 * number for number in range(13)]
    assert thinned(radii_of([small]), 16) == radii_of([small])


def test_table_of_a_huge_radius_is_bounded() -> None:
    far = Summary(Certificates("a", [Row(0, 1, 1, 1e8, 1.0)]))
    assert len(radii_of([far])) <= 400


def decided(certifier: str, parameters: dict[str, Any], **header: Any) -> Summary:
    """Return the summary of four images, of which three are certified at 0.25 and two at 0.5."""
    rows = [Row(index, 1, 1, radius, 1.0) for index, radius in enumerate((0.25, 0.5, 0.5))]
    stated = {"procedure": certifier, "parameters": parameters, **header}
    return Summary(Certificates("a", [*rows, Row(3, 1, -1, 0.0, 1.0)], stated))


SEQUENTIAL = decided("sequential", {"radii": [0.25, 0.5]})


def test_enough_tested_radii_are_the_radii_of_a_table() -> None:
    every = decided("sequential", {"radii": [0.0, 0.25, 0.5, 0.75]})
    assert radii_of([every]) == [0.0, 0.25, 0.5, 0.75]


def test_untested_radii_are_bounds_or_unknown() -> None:
    assert SEQUENTIAL.known(0.25) == Value(0.75)
    assert SEQUENTIAL.known(0.3) == Value(0.5, exact=False), "what holds at 0.5 holds at 0.3"
    assert SEQUENTIAL.known(0.0) == Value(0.75, exact=False)
    assert SEQUENTIAL.known(0.75) is None
    assert SEQUENTIAL.known_acr == Value(1.25 / 4, exact=False)
    assert SEQUENTIAL.known_abstentions is None
    assert ACCURACY.known(0.75) == Value(0.0)
    assert ACCURACY.known_acr == Value(ACCURACY.acr)


def test_abstentions_are_known_where_nothing_else_can_be_missing() -> None:
    assert decided("sequential", {"radii": [0.0]}).known_abstentions is None, "wrong and abstained look the same"
    assert decided("sequential", {"radii": [0.0]}, label_known=False).known_abstentions == Share(1, 4)
    assert decided("fixed", {"radius": 0.25}).known_abstentions is None
    assert decided("fixed", {"radius": None}).known_abstentions == Share(1, 4)


def test_line_of_a_file_contains_only_tested_radii() -> None:
    assert in_words(ACCURACY) == "4 images, 50.0% certified and correct, average certified radius 0.187"
    assert in_words(SEQUENTIAL) == (
        "4 images, 75.0% at radius 0.25, 50.0% at radius 0.50 certified and correct, the label known, "
        "average certified radius at least 0.312"
    )
    predicted = Summary(Certificates("a", [Row(0, 1, 1, 0.0, 1.0)], {"procedure": "prediction"}))
    assert in_words(predicted) == "1 images, 100.0% at radius 0.00 certified and correct, average certified radius -"
    assert in_words(SEQUENTIAL).isascii(), "any terminal can show it"


def test_lower_bound_has_a_sign() -> None:
    assert (shown(None, 1), shown(Value(0.6249, exact=False), 1, 2), shown(Value(0.6249), 1, 2)) == (
        *("–", "≥ 62.4", "62.4"),  # noqa: RUF001
    )


def test_down_and_up_round_decimals() -> None:
    assert (down(0.29, 2), down(0.28999, 2), up(0.28001, 2)) == ("0.29", "0.28", "0.29")
    assert (down(57 / 100, 1, 2), up(2 / 3, 1, 2), down(1.0, 1, 2)) == ("57.0", "66.7", "100.0")
    assert (down(1e-05, 4), down(0.0, 1, 2)) == ("0.0000", "0.0")


@given(st.floats(0, 1), st.integers(0, 6), st.sampled_from([0, 2]))
def test_text_is_rounded_down_or_up(value: float, digits: int, shift: int) -> None:
    scale, slack = 10**shift, 1e-12
    assert float(down(value, digits, shift)) <= value * scale + slack
    assert float(up(value, digits, shift)) >= value * scale - slack
    assert float(up(value, digits, shift)) - float(down(value, digits, shift)) <= 10.0**-digits + slack


@pytest.mark.parametrize("method", PUBLISHED)
def test_published_logs_give_their_acr(method: str, logs: Path) -> None:
    path = logs / f"cifar10-sigma0.50-{method}.tsv"
    accuracy = Summary(read(path))
    assert accuracy.images == 10_000
    assert accuracy.acr == pytest.approx(PUBLISHED[method], abs=5.1e-5)
    with path.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for radius in (0.0, 0.25, 1.5):
        share = sum(row["correct"] == "1" and float(row["radius"]) >= radius for row in rows) / len(rows)
        assert math.isclose(accuracy.at(radius).value, share)

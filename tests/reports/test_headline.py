"""The headline of an input, and radii that fit the data."""

from typing import Any

import pytest

from radii.reports.accuracies import accuracies
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary
from radii.reports.page.notes import headline, headline_radius
from radii.runs.certificates import Certificates, Row


def entry(radii: list[float], **header: Any) -> Entry:
    rows = [Row(index, 1, 1, radius, 1.0) for index, radius in enumerate(radii)]
    stated = {"procedure": "fixed", "parameters": {"failure": 0.001}, **header}
    return Entry("a", Summary(Certificates("a", [*rows, Row(len(rows), 1, -1, 0.0, 1.0)], stated)))


SEQUENTIAL = {"procedure": "sequential", "parameters": {"radii": [0.5], "failure": 0.001}}


def test_headline_states_share_interval_and_abstentions() -> None:
    words = (
        "Within radius 0.50 (l2), 66.6 % of test pictures are guaranteed (9.3–99.2, 3 pictures); 33.4 % get no answer."  # noqa: RUF001
    )
    assert headline(entry([0.5, 0.7]), 0.5) == words


def test_bounds_and_untested_radii_are_marked() -> None:
    tested = entry([0.5, 0.5], **SEQUENTIAL)
    assert (
        headline(tested, 0.25)
        == "Within radius 0.25 (l2), at least 66.6 % of test pictures are guaranteed (3 pictures)."
    )
    assert headline(tested, 0.75) == "Within radius 0.75 (l2) nothing was tested (3 pictures)."


@pytest.mark.parametrize(("sigma", "radius", "columns"), [(0.12, 0.2, 5), (0.25, 0.5, 4), (0.5, 1.0, 8), (1.0, 2.0, 8)])
def test_radii_are_sensible_at_every_sigma(sigma: float, radius: float, columns: int) -> None:
    tested = entry([0.0, 3.8 * sigma], sigma=sigma)
    assert headline_radius([tested]) == radius
    assert len([name for name in accuracies([tested]).head if name[:1].isdigit()]) == columns


def test_a_tested_radius_is_the_headline() -> None:
    assert headline_radius([entry([0.5], sigma=1.0, **SEQUENTIAL)]) == 0.5
    assert headline_radius([entry([0.5], sigma=0.25)], (0.1, 0.3)) == 0.3


def test_radii_that_were_asked_for_are_the_columns() -> None:
    assert accuracies([entry([0.5])], (0.0, 0.1)).head[3:-1] == ["0.00", "0.10"]

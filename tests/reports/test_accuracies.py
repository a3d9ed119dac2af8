"""Tables: rounded down, the best marked where there is one, a dash for an unknown value."""

from collections.abc import Sequence

import pytest

from radii.reports.accuracies import accuracies, intervals
from radii.reports.details import COMPUTED, SHARED, details_tables
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary
from radii.reports.protocol import FEWEST_IMAGES
from radii.reports.tables import Table
from radii.reports.text import UNKNOWN
from radii.runs.certificates import Certificates, Row
from tests.reports.samples import SEQUENTIAL, entry


def texts(table: Table, row: int = 0) -> list[str]:
    return [cell.text for cell in table.rows[row]]


def bests(entries: Sequence[Entry]) -> list[str]:
    return [row[0].text for row in accuracies(entries).rows for cell in row if cell.best]


WEAK = entry("weak_1", 0.25, 0.1, 0.0, times=FEWEST_IMAGES)
STRONG = entry("strong|2", 0.3, 0.6, 0.0, times=FEWEST_IMAGES)


def test_accuracies_are_rounded_down_and_the_best_is_marked() -> None:
    table = accuracies([WEAK, STRONG])
    assert table.head == ["", "σ", "ACR", "0.00", "0.25", "0.50", "0.75", "abstains"]  # noqa: RUF001
    weak, strong = table.rows
    assert [cell.text for cell in weak] == ["weak_1", "0.50", "0.1166", "66.6", "33.3", "0.0", "0.0", "33.4"]
    assert [cell.text for cell in strong] == ["strong|2", "0.50", "0.3000", "66.6", "66.6", "33.3", "0.0", "33.4"]
    assert [cell.best for cell in weak] == [False, False, False, True, False, False, False, False]
    assert [cell.best for cell in strong] == [False, False, True, True, True, True, False, False]
    assert weak[3].interval == "61.0–72.0"  # noqa: RUF001


def test_one_input_has_no_best() -> None:
    assert bests([WEAK]) == []


@pytest.mark.parametrize(
    "other",
    [
        entry("few", 9.0, 9.0, 9.0),
        entry("other failure", 0.3, 0.6, 0.0, times=FEWEST_IMAGES, parameters={"failure": 0.1}),
        entry("other certifier", 0.3, 0.6, 0.0, times=FEWEST_IMAGES, procedure="planned"),
    ],
    ids=lambda other: other.name,
)
def test_different_protocols_have_no_marked_best(other: Entry) -> None:
    assert bests([WEAK, other]) == []


def test_three_images_have_no_best() -> None:
    assert bests([entry("a", 0.5, 0.6, 0.7), entry("b", 0.1, 0.2, 0.3)]) == []


def test_untested_radius_is_a_dash_or_a_bound() -> None:
    table = accuracies([entry("a", 0.25, 0.5, 0.5, 0.0, **SEQUENTIAL), WEAK])
    assert table.head == ["", "σ", "ACR", "0.00", "0.25", "0.50", "0.75", "abstains"]  # noqa: RUF001
    assert texts(table) == ["a", "0.50", "≥ 0.3125", "≥ 75.0", "75.0", "50.0", UNKNOWN, UNKNOWN]
    assert [bool(cell.interval) for cell in table.rows[0]] == [False, False, False, False, True, True, False, False]


def test_radii_of_which_nothing_is_known_have_no_column() -> None:
    table = accuracies([entry("a", 0.25, 0.5, **SEQUENTIAL), entry("b", 0.125, parameters={"radius": 0.125})])
    assert table.head[3:] == ["0.00", "0.125", "0.25", "0.50", "abstains"]


def test_fixed_with_a_radius_knows_only_that_radius() -> None:
    table = accuracies([entry("a", 0.5, 0.0, parameters={"radius": 0.5})])
    assert texts(table) == ["a", "0.50", "≥ 0.2500", "≥ 50.0", "≥ 50.0", "50.0", UNKNOWN]


def test_untested_radii_are_unknown_if_nothing_is_certified() -> None:
    table = accuracies([entry("a", 0.0, 0.0, **SEQUENTIAL)])
    assert texts(table) == ["a", "0.50", UNKNOWN, UNKNOWN, "0.0", "0.0", UNKNOWN]


def test_a_prediction_knows_radius_zero() -> None:
    rows = [Row(0, 1, 1, 0.0, 1.0), Row(1, 1, -1, 0.0, 1.0)]
    predicted = Entry("a", Summary(Certificates("a", rows, {"procedure": "prediction"})))
    assert texts(accuracies([predicted])) == ["a", UNKNOWN, UNKNOWN, "50.0", "50.0"]


def test_tested_radius_has_its_own_column() -> None:
    table = accuracies([entry("a", 0.125, 0.125, parameters={"radius": 0.125}), WEAK])
    assert table.head[3:6] == ["0.00", "0.125", "0.25"]
    assert [cell.text for cell in table.rows[1][3:6]] == ["66.6", "33.3", "33.3"]


def test_bounds_are_not_marked_as_best() -> None:
    inputs = [entry(name, radius, times=FEWEST_IMAGES, **SEQUENTIAL) for name, radius in (("a", 0.25), ("b", 0.5))]
    table = accuracies(inputs)
    assert [cell.best for cell in table.rows[1]] == [False, False, False, False, True, True, False]


def test_intervals_are_a_table_of_the_radii_alone() -> None:
    table = intervals(accuracies([entry("a", 0.25, **SEQUENTIAL), WEAK]))
    assert table.head == ["", "0.00", "0.25", "0.50", "0.75"]
    assert texts(table)[:2] == ["a", UNKNOWN]
    assert texts(table, 1)[:2] == ["weak_1", "61.0–72.0"]  # noqa: RUF001


def test_details_are_columns_for_few_inputs_and_rows_for_many() -> None:
    (few,) = details_tables([entry("a", 0.25), entry("b", 0.5)]).values()
    assert few.head == ["", "a", "b"]
    assert [row[0].text for row in few.rows] == ["Images", "Certifier", "Time per image", "Certification time"]
    many = details_tables([entry(str(number), *[0.5] * (number + 1)) for number in range(5)])[COMPUTED]
    assert many.head == ["", "Images", "Certification time"]
    assert texts(many, 3) == ["3", "images 0 to 3 (4)", "4 s"]


def test_shared_details_are_one_table() -> None:
    shared = details_tables([entry(str(number), *[0.5] * (number + 1)) for number in range(5)])[SHARED]
    assert shared.head == ["", "All inputs"]
    assert [texts(shared, row) for row in range(2)] == [["Certifier", "fixed"], ["Time per image", "1 s"]]

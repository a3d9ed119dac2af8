"""The certified accuracy as plain data: only what was tested, bounds named as bounds, and whether labels were known."""

from typing import Any

import pytest

from radii.reports.model_card import describe
from radii.runs.certificates import Certificates, Row

ROWS = [Row(0, 1, 1, 0.5, 0.1), Row(1, 1, 1, 0.0, 0.1), Row(2, 1, -1, 0.0, 0.1), Row(3, 1, 0, 0.5, 0.1)]


def described(procedure: str, rows: list[Row] = ROWS, **header: Any) -> dict[str, Any]:
    parameters = header.pop("parameters", {})
    return describe(Certificates("a", rows, {"procedure": procedure, "parameters": parameters, **header}))


@pytest.mark.parametrize(
    ("procedure", "parameters", "accuracy"),
    [
        ("sequential", {"radii": [0.5, 0.0]}, {"0": 0.5, "0.5": 0.25}),
        ("sequential", {"radii": [0.5]}, {"0.5": 0.25}),
        ("planned", {"radius": 0.5}, {"0.5": 0.25}),
        ("prediction", {}, {"0": 0.5}),
    ],
)
def test_only_tested_radii_have_an_accuracy(procedure: str, parameters: Any, accuracy: dict[str, float]) -> None:
    assert described(procedure, parameters=parameters)["certified_accuracy"] == accuracy


def test_the_average_of_tested_radii_is_a_bound() -> None:
    card = described("sequential", parameters={"radii": [0.0, 0.5]})
    assert (card["average_certified_radius"], card["average_certified_radius_at_least"]) == (None, 0.125)
    nothing = described("sequential", ROWS[2:], parameters={"radii": [0.5]})
    assert (nothing["average_certified_radius"], nothing["average_certified_radius_at_least"]) == (None, None)
    exact = described("fixed")
    assert (exact["average_certified_radius"], exact["average_certified_radius_at_least"]) == (0.125, 0.125)


def test_whether_the_labels_were_known_is_stated() -> None:
    assert described("sequential", parameters={"radii": [0.5]})["label_known"] is True
    assert described("sequential", parameters={"radii": [0.5]}, label_known=False)["label_known"] is False
    assert described("fixed")["label_known"] is False

"""What a certificate file records, and which files are comparable."""

from dataclasses import dataclass
from typing import Any

import pytest

from radii import certifiers
from radii.reports import protocol
from radii.reports.protocol import FEWEST_IMAGES, comparable, differences, label_known, planned_images
from radii.runs.certificates import Certificates, Row

TESTED_RADII: dict[str, tuple[dict[str, Any], tuple[float, ...] | None]] = {
    "fixed": ({"estimation": 1000, "radius": None}, None),
    "planned": ({"most_samples": 1000}, None),
    "prediction": ({"samples": 1000}, (0.0,)),
    "sequential": ({"radii": [0.5, 0.25]}, (0.25, 0.5)),
    "soft": ({"estimation": 1000}, None),
}
"""Parameters of each certifier, and the radii that it tests with them."""


def certified(images: int = FEWEST_IMAGES, *, label: int = 1, **header: Any) -> Certificates:
    rows = [Row(index, label, 1, 0.5, 1.0, 100) for index in range(images)]
    return Certificates("a", rows, {"procedure": "fixed", "parameters": {"failure": 0.001}, **header})


def test_every_certifier_is_in_the_table() -> None:
    assert sorted(TESTED_RADII) == sorted(certifiers.names()), "add the radii that a new certifier tests"


@pytest.mark.parametrize("certifier", TESTED_RADII)
def test_tested_radii_of_a_certifier(certifier: str) -> None:
    parameters, radii = TESTED_RADII[certifier]
    certificates = certified(procedure=certifier, parameters=parameters)
    assert protocol.tested_radii(certificates) == radii
    assert label_known(certificates) == (certifier == "sequential")


def test_single_radius_is_a_tested_radius() -> None:
    assert protocol.tested_radii(certified(parameters={"radius": 0.25})) == (0.25,)
    assert protocol.tested_radii(Certificates("foreign", certified().rows)) is None
    assert protocol.tested_radii(certified(parameters={"radii": ["x", True]})) is None, "no numbers"


def test_header_can_state_that_the_label_was_not_known() -> None:
    assert not label_known(certified(procedure="sequential", label_known=False))
    assert label_known(certified(procedure="mine:Own", label_known=True))


@pytest.mark.parametrize(
    ("header", "images"),
    [
        ({"every": 20, "images": 100}, 5),
        ({"every": 1, "images": 100, "most": 7}, 7),
        ({"every": 30, "images": 100, "most": 9}, 4),
        ({}, None),
        ({"every": "x", "images": 100}, None),
        ({"every": 0, "images": 100}, None),
    ],
)
def test_the_number_of_chosen_images(header: dict[str, Any], images: int | None) -> None:
    assert planned_images(Certificates("a", certified().rows, header)) == images


ALIKE = certified(dataset="digits", noise={"name": "gaussian", "sigma": 0.25}, seed=0, sigma=0.25, engine="torch")


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (certified(parameters={"failure": 0.01}), "failure"),
        (certified(parameters={"failure": 0.001, "estimation": 10}), "budgets"),
        (certified(procedure="planned"), "certifiers"),
        (certified(FEWEST_IMAGES + 1), "images"),
        (certified(label=2), "images"),
        (certified(dataset="mnist"), "datasets"),
        (certified(noise={"name": "uniform"}), "noises"),
        (certified(label_known=True), "label"),
        (Certificates("foreign", certified().rows), "record their certifier"),
    ],
)
def test_different_protocols_have_no_best(other: Certificates, word: str) -> None:
    same = Certificates("b", other.rows, {**ALIKE.header, **other.header} if other.header else {})
    assert any(word in words for words in differences([ALIKE, same]))
    assert not comparable([ALIKE, same])


def test_different_sigma_seed_or_engine_is_comparable() -> None:
    other = certified(**{**ALIKE.header, "sigma": 0.5, "seed": 1, "engine": "openvino"})
    assert comparable([ALIKE, other])
    assert not comparable([ALIKE]), "one input is not the best of anything"


def test_few_images_have_no_best() -> None:
    assert not differences([certified(3), certified(3)])
    assert not comparable([certified(3), certified(3)])


@dataclass(frozen=True)
class Pictured(Row):
    """A row with the digest of its image."""

    digest: str = ""


def pictured(digest: str) -> Certificates:
    rows = [Pictured(index, 1, 1, 0.5, 1.0, digest=digest) for index in range(FEWEST_IMAGES)]
    return Certificates("a", rows, ALIKE.header)


def test_other_images_with_the_same_indices_are_not_comparable() -> None:
    assert not comparable([pictured("a"), ALIKE, pictured("b")])
    assert comparable([pictured("a"), ALIKE, pictured("a")]), "older files have no digests"

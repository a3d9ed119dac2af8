"""Radii recomputed from counts: every certificate's radius is among the possible ones."""

from typing import Any

import numpy as np
import pytest

from radii import certifiers
from radii.certifiers import certify_image
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN
from tools.voters import random_voter

FIELDS: dict[str, list[dict[str, Any]]] = {
    "fixed": [
        {"estimation": 500},
        {"estimation": 500, "bound": "top_two"},
        {"estimation": 500, "radius": 0.3},
        {"estimation": 500, "radius": 0.3, "bound": "top_two"},
    ],
    "planned": [{"most_samples": 1_000}],
    "prediction": [{"samples": 300}],
    "sequential": [{"radii": (0.0, 0.25, 0.5, 0.75), "most_samples": 1_000}],
    "soft": [{"estimation": 300}],
}
CASES = [(name, fields) for name in certifiers.names() for fields in FIELDS[name]]


@pytest.mark.parametrize(("name", "fields"), CASES, ids=str)
@pytest.mark.parametrize("label", [None, 0])
def test_radius_is_among_the_possible_radii_of_its_counts(name: str, fields: dict[str, Any], label: int | None) -> None:
    certifier = certifiers.create(name, **fields)
    for seed, chance in enumerate(np.linspace(0.3, 0.99, 40)):
        voter = random_voter(chance, (1 - chance) * 0.7, (1 - chance) * 0.3, seed=seed)
        found = certify_image(certifier, voter, None, NoiseAddress(0), label)
        counts = np.array(found.counts or (0, 0, 0))
        possible = certifier.possible_radii(counts, found.samples, max(found.prediction, 0), voter.noise)
        if name == "soft":
            assert possible is None
        elif found.prediction != ABSTAIN:
            assert possible is not None
            assert found.radius in possible


@pytest.mark.parametrize(("name", "fields"), [case for case in CASES if case[0] != "soft"], ids=str)
def test_a_class_without_votes_has_no_radius(name: str, fields: dict[str, Any]) -> None:
    certifier, voter = certifiers.create(name, **fields), random_voter(0.9, 0.1, 0.0, seed=1)
    found = certify_image(certifier, voter, None, NoiseAddress(0), 0)
    assert certifier.possible_radii(np.array(found.counts), found.samples, 2, voter.noise) == ()


@pytest.mark.parametrize(
    ("name", "fields"), [case for case in CASES if case[0] != "soft" and "radius" not in case[1]], ids=str
)
@pytest.mark.parametrize("change", [(1, 0), (0, 1), (1, 1), (-1, -1)])
def test_inconsistent_counts_are_refused(name: str, fields: dict[str, Any], change: tuple[int, int]) -> None:
    """One vote more or less in the counts, in the stated samples, or in both where their number is fixed."""
    certifier, voter = certifiers.create(name, **fields), random_voter(0.9, 0.1, 0.0, seed=1)
    found = certify_image(certifier, voter, None, NoiseAddress(0), 0)
    counts = np.array(found.counts) + np.array([change[0], 0, 0])
    with pytest.raises(ValueError, match="votes"):
        certifier.possible_radii(counts, found.samples + change[1], 0, voter.noise)

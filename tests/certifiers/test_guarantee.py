"""Every certifier's guarantee by simulation: false certificates are no more frequent than the failure probability."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from scipy.special import ndtr, ndtri

from radii import certifiers
from radii.certifiers import Certifier, certify_image
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate
from tools.voters import random_voter

RUNS = 20_000
FAILURE = 0.05
AT_HALF_SIGMA = float(ndtr(0.5))
SOURCES = [(0.5, 0.5), (AT_HALF_SIGMA, 1 - AT_HALF_SIGMA), (0.4, 0.3, 0.3), (1 / 3, 1 / 3, 1 / 3)]

PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "fixed": [
        {"selection": 10, "estimation": 200},
        {"selection": 10, "estimation": 200, "bound": "top_two"},
        {"selection": 10, "estimation": 256, "radius": 0.5},
    ],
    "prediction": [{"samples": 100}],
    "sequential": [
        {"radii": (0.0,), "most_samples": 1_000, "pilot": 10},
        {"radii": (0.0, 0.25, 0.5), "most_samples": 1_000, "pilot": 10},
    ],
    "planned": [{"pilot": 20, "most_samples": 1_000, "tolerance": 0.1}],
    "soft": [
        {"selection": 10, "estimation": 60},
        {"selection": 10, "estimation": 60, "bound": "hoeffding"},
        {"selection": 10, "estimation": 50, "bound": "betting"},
    ],
}
CASES = [(name, fields) for name, cases in PARAMETERS.items() for fields in cases]


def test_every_certifier_is_tested() -> None:
    assert set(PARAMETERS) == set(certifiers.names())


def true_radius(certifier: Certifier, chances: Sequence[float]) -> float:
    """The true radius of class 0 at sigma 1; negative where it must not be certified."""
    if certifier.name == "prediction":
        return 0.0 if chances[0] > chances[1] else -1.0
    if getattr(certifier, "bound", "") == "top_two":
        return float(ndtri(chances[0]) - ndtri(chances[1])) / 2 if chances[0] > chances[1] else -1.0
    return float(ndtri(chances[0])) if chances[0] > 0.5 else -1.0


def is_false(certificate: Certificate, certifier: Certifier, truth: float) -> bool:
    if certificate.prediction == ABSTAIN:
        return False
    # A certifier that tests the true radius itself has its full error there, so that radius counts as false.
    too_far = certificate.radius > truth - 1e-9 and certifier.name != "prediction"
    return certificate.prediction != 0 or truth < 0 or too_far


@pytest.mark.slow
@pytest.mark.parametrize("chances", SOURCES, ids=lambda chances: "-".join(f"{chance:.2f}" for chance in chances))
@pytest.mark.parametrize(("name", "fields"), CASES, ids=lambda case: case if isinstance(case, str) else str(case))
def test_false_certificates(name: str, fields: dict[str, Any], chances: tuple[float, ...]) -> None:
    certifier = certifiers.create(name, failure=FAILURE, **fields)
    voter, noise, truth = random_voter(*chances, seed=11), NoiseAddress(0), true_radius(certifier, chances)
    false = sum(is_false(certify_image(certifier, voter, None, noise), certifier, truth) for _ in range(RUNS))
    assert false <= FAILURE * RUNS + 5 * math.sqrt(RUNS * FAILURE * (1 - FAILURE))


@pytest.mark.slow
@pytest.mark.parametrize("radii", [(0.5,), (0.0, 0.25, 0.5, 0.75)])
def test_false_certificates_of_a_known_label(radii: tuple[float, ...]) -> None:
    certifier = certifiers.create("sequential", failure=FAILURE, radii=radii, most_samples=2_000, futility=0.0)
    voter = random_voter(AT_HALF_SIGMA, 1 - AT_HALF_SIGMA, seed=12)
    runs = RUNS // 2
    found = [certify_image(certifier, voter, None, NoiseAddress(0), label=0).radius for _ in range(runs)]
    false = sum(radius >= 0.5 for radius in found)
    deviation = math.sqrt(runs * FAILURE * (1 - FAILURE))
    assert FAILURE * runs / 2 < false <= FAILURE * runs + 5 * deviation

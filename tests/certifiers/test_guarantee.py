"""Every certifier's guarantee by simulation: false certificates are no more frequent than the failure probability."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from radii import certifiers
from radii.certifiers import Certifier, certify_image, soft
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.betting import BISECTIONS, CAPS, betting_lower
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


def count_false(certifier: Certifier, chances: Sequence[float]) -> int:
    """Certify RUNS times with new votes, always the same ones; return how many certificates are false."""
    voter, noise, truth = random_voter(*chances, seed=11), NoiseAddress(0), true_radius(certifier, chances)
    return sum(is_false(certify_image(certifier, voter, None, noise), certifier, truth) for _ in range(RUNS))


@pytest.mark.slow
@pytest.mark.stress
@pytest.mark.parametrize("chances", SOURCES, ids=lambda chances: "-".join(f"{chance:.2f}" for chance in chances))
@pytest.mark.parametrize(("name", "fields"), CASES, ids=lambda case: case if isinstance(case, str) else str(case))
def test_false_certificates(
    name: str, fields: dict[str, Any], chances: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    certifier = certifiers.create(name, failure=FAILURE, **fields)
    if fields.get("bound") == "betting":
        compute_bounds_at_once(certifier, chances, monkeypatch)
    assert count_false(certifier, chances) <= FAILURE * RUNS + 5 * math.sqrt(RUNS * FAILURE * (1 - FAILURE))


def compute_bounds_at_once(certifier: Certifier, chances: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the bounds of all runs in one array: one at a time they take a minute.

    The first count only collects the values that a bound is asked for; the next one gets the same values.
    """
    asked: dict[bytes, NDArray[np.float64]] = {}

    def collect(values: NDArray[np.float64], _: float) -> float:
        asked[values.tobytes()] = values
        return 0.0

    monkeypatch.setitem(soft.BOUNDS, "betting", collect)
    count_false(certifier, chances)
    bounds = dict(zip(asked, betting_lower_of_rows(np.stack(list(asked.values()))), strict=True))
    for values in list(asked.values())[:500]:
        assert bounds[values.tobytes()] == pytest.approx(betting_lower(values, FAILURE), abs=1e-12)
    monkeypatch.setitem(soft.BOUNDS, "betting", lambda values, _: bounds[values.tobytes()])


def betting_lower_of_rows(values: NDArray[np.float64]) -> list[float]:
    """Return `betting_lower` of every row."""
    drawn = np.arange(2, values.shape[1] + 2)
    means = (0.5 + np.cumsum(values, 1)) / drawn
    variances = (0.25 + np.cumsum((values - means) ** 2, 1)) / drawn
    before = np.concatenate([np.full((len(values), 1), 0.25), variances[:, :-1]], 1)
    bets = np.sqrt(-2 * math.log(FAILURE) / (values.shape[1] * before))
    low, high = np.zeros(len(values)), np.ones(len(values))
    for _ in range(BISECTIONS):
        mean = ((low + high) / 2)[:, None]
        paths = [np.cumsum(np.log1p(np.minimum(bets, cap / mean) * (values - mean)), 1) for cap in CAPS]
        capital = np.mean([np.exp(path) for path in paths], 0).max(1)  # at most 2 ** 50: no overflow
        won = np.log(capital) >= -math.log(FAILURE)
        low, high = np.where(won, mean[:, 0], low), np.where(won, high, mean[:, 0])
    return [float(bound) for bound in low]


@pytest.mark.slow
@pytest.mark.stress
@pytest.mark.parametrize("radii", [(0.5,), (0.0, 0.25, 0.5, 0.75)])
def test_false_certificates_of_a_known_label(radii: tuple[float, ...]) -> None:
    certifier = certifiers.create("sequential", failure=FAILURE, radii=radii, most_samples=2_000, futility=0.0)
    voter = random_voter(AT_HALF_SIGMA, 1 - AT_HALF_SIGMA, seed=12)
    runs = RUNS // 2
    found = [certify_image(certifier, voter, None, NoiseAddress(0), label=0).radius for _ in range(runs)]
    false = sum(radius >= 0.5 for radius in found)
    deviation = math.sqrt(runs * FAILURE * (1 - FAILURE))
    assert FAILURE * runs / 2 < false <= FAILURE * runs + 5 * deviation

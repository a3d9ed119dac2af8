"""The samples that sequential certification needs on the probabilities of published logs, simulated without a network.

A logged radius gives the probability of the top class. The logs do not give the label's probability where the
prediction was wrong or missing, so it is drawn: a uniform share of what the top class leaves, or uniform in UNDECIDED.
"""

import os
from bisect import bisect_left
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from radii.certifiers.sequential import Sequential
from radii.runs import certificates
from radii.smoothing.bounds import binomial_lower
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Gaussian
from radii.smoothing.sequential import SequentialTests

NOISE = Gaussian(0.5)
SAMPLES = 100_000
UNDECIDED = (0.2, 0.505)
ONE_RADIUS = (0.25, 0.5)
GRID = tuple(0.25 * step for step in range(8))
"""Up to 3.5 sigma."""

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]


def published_logs() -> list[Path]:
    """Return the published CIFAR-10 logs of the folder that RADII_LOGS names."""
    folder = os.environ.get("RADII_LOGS")
    paths = sorted(Path(folder).glob("cifar10-sigma0.50-*.tsv")) if folder else []
    if not paths:
        raise LookupError(f"RADII_LOGS is {folder!r}, expected a folder of published logs, cifar10-sigma0.50-*.tsv")
    return paths


def measure_logs(paths: list[Path], seed: int = 0, repeats: int = 5) -> dict[str, Any]:
    """Return mean samples and certified accuracy, the label known, against a fixed number of samples on the same
    images."""
    rng = np.random.default_rng(seed)
    labels = {path.stem.removeprefix("cifar10-sigma0.50-"): label_probabilities(path, rng) for path in paths}
    one = [_compare(labels, (radius,), rng, repeats) for radius in ONE_RADIUS]
    return {
        "one radius": {f"{radius:g}": found for radius, found in zip(ONE_RADIUS, one, strict=True)}
        | {"times_fewer": SAMPLES / float(np.mean([found["samples"] for found in one]))},
        "grid": _compare(labels, GRID, rng, repeats),
    }


def label_probabilities(log: Path, rng: np.random.Generator) -> Numbers:
    """Return the probability of every image's label."""
    rows = certificates.read(log).rows
    top = np.array([NOISE.probability_for(row.radius) for row in rows])
    wrong = (1 - top) * rng.random(len(rows))
    undecided = rng.uniform(*UNDECIDED, len(rows))
    correct = np.array([row.correct for row in rows])
    abstained = np.array([row.prediction == ABSTAIN for row in rows])
    return np.select([correct, abstained], [top, undecided], wrong)


def simulate(tests: SequentialTests, probabilities: Numbers, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """For each probability, how many thresholds one run of the tests proves, and the samples that it uses."""
    hits, proven, samples = np.zeros((3, len(probabilities)), dtype=np.int64)
    crossed = np.zeros((len(probabilities), tests.accept.shape[1]), dtype=np.bool_)
    running = np.arange(len(probabilities))
    for look, drawn in enumerate(tests.looks):
        hits[running] += rng.binomial(drawn - samples[running], probabilities[running])
        samples[running] = drawn
        crossed[running], proven[running], stop = tests.update(look, hits[running], crossed[running])
        running = running[~stop]
    return proven, samples


def fixed_accuracy(probabilities: Numbers, radius: float, failure: float) -> float:
    """Return the expected certified accuracy of a fixed number of samples."""
    threshold = NOISE.probability_for(radius)
    fewest = bisect_left(range(SAMPLES + 1), threshold, key=lambda hits: binomial_lower(hits, SAMPLES, failure))
    return float(bdtrc(fewest - 1, SAMPLES, probabilities).mean())


def _compare(
    labels: dict[str, Numbers], radii: tuple[float, ...], rng: np.random.Generator, repeats: int
) -> dict[str, Any]:
    """Compared with the fixed number of samples, means over logs; accuracy changes in points, one for each radius."""
    certifier = Sequential(radii=radii, most_samples=SAMPLES)
    spent, changes = {}, []
    for name, probabilities in labels.items():
        tests = certifier.tests(NOISE)
        runs = [simulate(tests, probabilities, rng) for _ in range(repeats)]
        spent[name] = float(np.mean([samples for _, samples in runs]))
        accuracies = [np.mean([proven > number for proven, _ in runs]) for number in range(len(radii))]
        fixed = [fixed_accuracy(probabilities, radius, certifier.failure) for radius in radii]
        changes.append(100 * (np.array(accuracies) - fixed))
    mean = float(np.mean(list(spent.values())))
    return {
        "samples": mean,
        "times_fewer": SAMPLES / mean,
        "times_fewer_by_log": {name: SAMPLES / samples for name, samples in spent.items()},
        "accuracy_change": np.mean(changes, axis=0).tolist(),
        "worst_accuracy_change": float(np.min(changes)),
    }

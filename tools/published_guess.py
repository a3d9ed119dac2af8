"""Print the default guess of `one_pass`: quantiles of the label's probability in the published logs of RADII_LOGS.

python -m tools.published_guess; PUBLISHED in radii/smoothing/one_pass.py holds its output.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.sample_cost import label_probabilities, published_logs

POINTS = 32
DIGITS = 4


def quantiles(logs: Sequence[Path]) -> list[float]:
    """Return the probabilities in the middle of equal shares of all images."""
    rng = np.random.default_rng(0)
    probabilities = np.sort(np.concatenate([label_probabilities(log, rng) for log in logs]))
    middles = ((np.arange(POINTS) + 0.5) / POINTS * len(probabilities)).astype(int)
    return [round(float(value), DIGITS) for value in probabilities[middles]]


if __name__ == "__main__":
    print(quantiles(published_logs()))

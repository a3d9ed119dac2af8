"""The average certified radius on a whole test set, from many samples of few images and few samples of all.

    python examples/whole_test_set.py FEW_IMAGES.tsv FEW_SAMPLES.tsv

A few images can be harder or easier than the rest. The cheap certificates, which every image has, show by how much; a
regression over the images that have both kinds corrects the average of the costly ones.
"""

import sys
from pathlib import Path

import numpy as np

from radii.runs import certificates


def radii_of(file: Path) -> dict[int, float]:
    """Return the certified radius of every image, 0 for a wrong prediction or an abstention."""
    return {row.index: row.correct * row.radius for row in certificates.read(file).rows}


def whole(few_images: Path, few_samples: Path) -> tuple[float, float]:
    """Return the average over the whole test set and its standard error."""
    costly, cheap = radii_of(few_images), radii_of(few_samples)
    x, y = np.array([(cheap[index], radius) for index, radius in costly.items()]).T
    slope = np.polyfit(x, y, 1)[0]
    average = y.mean() + slope * (np.mean(list(cheap.values())) - x.mean())
    return float(average), float((y - slope * x).std() / len(x) ** 0.5)


if __name__ == "__main__":
    print("{:.4f} ± {:.4f}".format(*whole(*map(Path, sys.argv[1:]))))

"""The average certified radius on a whole test set, from many samples of few images and few samples of all.

    python examples/whole_test_set.py FEW_IMAGES.tsv FEW_SAMPLES.tsv

A few images can be harder or easier than the rest. The cheap certificates, which every image has, show by how much; a
regression over the images that have both kinds corrects the average of the costly ones.
"""

import sys
from pathlib import Path

import numpy as np

from radii.runs import certificates
from radii.runs.certificates import Certificates

OTHER_FUNCTIONS = ("openvino_int8", "openvino_bf16")
"""Engines whose answers are not the network's in full precision."""


def read(few_images: Path, few_samples: Path) -> tuple[Certificates, Certificates]:
    """Read both files; raise a ValueError unless they are about one function and the second has every image."""
    costly, cheap = certificates.read(few_images), certificates.read(few_samples)
    for what, one, other in zip(("weights", "noise", "data", "engine"), _about(costly), _about(cheap), strict=True):
        if one != other:
            raise ValueError(
                f"{few_images} and {few_samples} differ in {what}: {one} and {other}. Name files that agree"
            )
    if not costly.header.get("weights"):
        raise ValueError(f"{few_images} does not record its weights. Make both files with radii certify")
    images = {row.index: (row.label, row.digest) for row in cheap.rows}
    for row in costly.rows:
        if images.get(row.index) != (row.label, row.digest):
            raise ValueError(f"{few_samples} lacks image {row.index} of {few_images}. Certify all images there")
    return costly, cheap


def radii_of(file: Certificates) -> dict[int, float]:
    """Return the certified radius of every image, 0 for a wrong prediction or an abstention."""
    return {row.index: row.correct * row.radius for row in file.rows}


def whole(few_images: Path, few_samples: Path) -> tuple[float, float]:
    """Return the average over the whole test set and its standard error."""
    costly, cheap = map(radii_of, read(few_images, few_samples))
    x, y = np.array([(cheap[index], radius) for index, radius in costly.items()]).T
    if len(set(x)) < 2:
        raise ValueError(f"{few_samples} has one radius for all images of {few_images}. Take more images")
    slope = np.polyfit(x, y, 1)[0]
    average = y.mean() + slope * (np.mean(list(cheap.values())) - x.mean())
    return float(average), float((y - slope * x).std() / len(x) ** 0.5)


def _about(file: Certificates) -> tuple[object, ...]:
    """Return what must be alike in both files. Engines that only round differently are one function."""
    engine = file.header.get("engine")
    function = (engine, file.header.get("artefact")) if engine in OTHER_FUNCTIONS else "full precision"
    return file.header.get("weights"), dict(file.noise), file.header.get("data"), function


if __name__ == "__main__":
    try:
        print("{:.4f} ± {:.4f}".format(*whole(*map(Path, sys.argv[1:]))))
    except (TypeError, ValueError, OSError) as error:
        usage = "usage: python examples/whole_test_set.py FEW_IMAGES.tsv FEW_SAMPLES.tsv"
        sys.exit(usage if len(sys.argv) != 3 else f"error: {error}")

"""Split a file of SVHN images into training and test images for the dataset `arrays`: svhn_subset.py IN.npz OUT.npz.

IN holds `images`, bytes [n, 32, 32, 3], and `labels`, of the first 10,000 test images of SVHN. The first 8,000 are to
train on, the rest to test on.
"""

import sys
from pathlib import Path

import numpy as np

TRAIN = 8_000


def split(source: Path, target: Path) -> None:
    """Write the two splits of `source` to `target`."""
    with np.load(source) as found:
        images, labels = found["images"], found["labels"]
    parts = {"train": slice(TRAIN), "test": slice(TRAIN, None)}
    named = {f"{name}_images": images[part] for name, part in parts.items()}
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez(target, **named, **{f"{name}_labels": labels[part] for name, part in parts.items()})


if __name__ == "__main__":
    split(Path(sys.argv[1]), Path(sys.argv[2]))

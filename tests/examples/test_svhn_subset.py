from pathlib import Path

import numpy as np

from examples.svhn_subset import TRAIN, split
from radii.datasets import create


def test_subset_is_read_as_training_and_test_images(tmp_path: Path) -> None:
    labels = np.arange(TRAIN + 20, dtype=np.uint8) % 10
    images = np.repeat(labels, 32 * 32 * 3).reshape(-1, 32, 32, 3)
    np.savez(tmp_path / "test10k.npz", images=images, labels=labels)
    split(tmp_path / "test10k.npz", tmp_path / "split" / "arrays.npz")
    dataset = create("arrays", path=str(tmp_path / "split"))
    train, test = dataset.part("train"), dataset.part("test")
    assert (len(train), len(test)) == (TRAIN, 20)
    assert test.labels.tolist() == labels[TRAIN:].tolist()

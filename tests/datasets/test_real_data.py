"""The publishers' real files, where RADII_DATA names a folder that has them."""

import os
from pathlib import Path

import pytest
import torch

from radii import datasets
from radii.datasets import DataError


def real(*place: str) -> Path:
    """The data folder, if it holds `place`."""
    named = os.environ.get("RADII_DATA")
    if not named or not Path(named, *place).exists():
        pytest.skip(f"RADII_DATA names no folder that has {'/'.join(place)}")
    return Path(named)


@pytest.mark.parametrize(
    ("name", "first", "mean"),
    [("mnist", [7, 2, 1, 0, 4, 1], 0.1325), ("fashion_mnist", [9, 2, 1, 1, 6, 1], 0.2868)],
)
def test_idx(name: str, first: list[int], mean: float) -> None:
    images = datasets.create(name, real(name)).split("test")
    assert len(images) == 10_000
    assert images.labels[:6].tolist() == first
    assert images.batch(torch.arange(10_000)).mean().item() == pytest.approx(mean, abs=1e-4)


def test_files_of_another_publisher_are_refused() -> None:
    with pytest.raises(DataError, match="is a file of mnist, expected fashion_mnist's"):
        datasets.create("fashion_mnist", real("mnist") / "mnist").split("test")


def test_cifar10() -> None:
    images = datasets.create("cifar10", real("cifar-10-batches-bin")).split("test")
    assert images.labels[:6].tolist() == [3, 8, 8, 0, 6, 6]
    assert images.labels.bincount().tolist() == [1000] * 10
    means = images.batch(torch.arange(10_000)).mean((0, 2, 3)).tolist()
    assert means == pytest.approx([0.4942, 0.4851, 0.4504], abs=1e-4)


def test_svhn_as_arrays() -> None:
    dataset = datasets.create("arrays", real("svhn", "test10k.npz") / "svhn" / "test10k.npz")
    images = dataset.split("test")
    assert (dataset.shape, dataset.classes, len(images)) == ((3, 32, 32), 10, 10_000)
    assert images.labels[:5].tolist() == [5, 2, 1, 0, 6]
    assert 0.3 < images.batch(torch.arange(1000)).mean() < 0.6


def test_gtsrb() -> None:
    dataset = datasets.create("gtsrb", real("gtsrb", "train.npz"), validation=2000)
    held, rest = dataset.part("validation"), dataset.part("train")
    assert len(dataset.split("test")) == 12_630
    assert 2000 <= len(held) < 2030
    assert len(held) + len(rest) == len(dataset.split("train"))


def test_photographs() -> None:
    dataset = datasets.create("folder", real("imagenette", "val") / "imagenette", enlarge=True)
    images = dataset.split("test")
    assert dataset.classes == 10
    assert 0.3 < images.batch(torch.arange(0, len(images), 100)).mean() < 0.6

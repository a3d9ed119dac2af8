"""Corrupted images: the published layouts, and radii's own set, which never passes for them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from radii import datasets, published_datasets
from radii.datasets import DataError
from radii.datasets._corruptions import CORRUPTIONS, corrupt
from radii.published_datasets import SEVERITIES


def write_blocks(folder: Path, kind: str) -> None:
    """Every pixel is the severity."""
    folder.mkdir()
    blocks = [np.full((2, 32, 32, 3), severity, np.uint8) for severity in SEVERITIES]
    np.save(folder / f"{kind}.npy", np.concatenate(blocks))
    np.save(folder / "labels.npy", np.tile([4, 7], 5))


def test_severity_selects_a_fifth_of_the_file_and_zero_selects_all(tmp_path: Path) -> None:
    write_blocks(tmp_path / "CIFAR-10-C", "fog")
    for severity in SEVERITIES:
        images = datasets.create("cifar10_c", tmp_path, kind="fog", severity=severity).split("test")
        assert images.labels.tolist() == [4, 7]
        assert torch.equal(images.batch(torch.arange(2)), torch.full((2, 3, 32, 32), severity / 255))
    assert len(datasets.create("cifar10_c", tmp_path, kind="fog").split("test")) == 10
    with pytest.raises(DataError, match=r"there is no file .*snow\.npy"):
        datasets.create("cifar10_c", tmp_path, kind="snow").split("test")
    with pytest.raises(ValueError, match=r"dataset 'cifar10_c': severity = 6"):
        datasets.create("cifar10_c", tmp_path, severity=6)


def test_labels_that_are_not_five_severities_are_refused(tmp_path: Path) -> None:
    write_blocks(tmp_path / "CIFAR-10-C", "fog")
    np.save(tmp_path / "CIFAR-10-C" / "labels.npy", np.arange(9))
    with pytest.raises(DataError, match=r"10 images and labels\.npy has \(9,\), expected five severities"):
        datasets.create("cifar10_c", tmp_path, kind="fog").split("test")


def test_images_of_radii_corrupt_are_not_read_as_cifar10_c(tmp_path: Path) -> None:
    write_blocks(tmp_path / "CIFAR-10-C", "fog")
    (tmp_path / "CIFAR-10-C" / "radii-corrupted.json").write_text("{}")
    with pytest.raises(DataError, match="was made by radii, it is not the published CIFAR-10-C"):
        datasets.create("cifar10_c", tmp_path, kind="fog").split("test")
    (tmp_path / "CIFAR-10-C" / "radii-corrupted.json").unlink()
    with pytest.raises(DataError, match="name a folder that `radii corrupt` made"):
        datasets.create("corrupted", tmp_path / "CIFAR-10-C")


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_corruption_grows_with_severity_and_depends_only_on_the_generator(kind: str) -> None:
    rng = np.random.default_rng(0)
    coarse = rng.random((3, 8, 8, 3)).repeat(4, 1).repeat(4, 2)

    def moved(severity: int) -> float:
        corrupted = [corrupt(image, kind, severity, np.random.default_rng(5)) for image in coarse]
        return float(np.mean([np.abs(one / 255 - image).mean() for one, image in zip(corrupted, coarse, strict=True)]))

    assert 0.001 < moved(1) < moved(5)
    assert moved(3) == moved(3)
    grey = corrupt(coarse[0][:8, :8, :1], kind, 5, rng)
    assert grey.shape == (8, 8, 1)
    assert grey.dtype == np.uint8


@pytest.mark.parametrize("side", [8, 28, 32])
def test_pixels_grow_with_every_severity(side: int) -> None:
    """At 24 of 28 pixels the nearest pixel is a tie now and then, and the whole image is moved by half a pixel."""
    digits = datasets.create("digits").split("test").batch(torch.arange(50))
    pixels = torch.nn.functional.interpolate(digits, side, mode="bilinear").permute(0, 2, 3, 1).double().numpy()

    def moved(severity: int) -> float:
        corrupted = np.stack([corrupt(image, "pixelate", severity, np.random.default_rng(0)) for image in pixels])
        return float(np.square(corrupted / 255 - pixels).mean())

    strengths = [moved(severity) for severity in SEVERITIES]
    assert strengths == sorted(strengths)


def test_corruptions_are_the_fifteen_kinds_of_cifar10_c() -> None:
    assert list(CORRUPTIONS) == list(published_datasets.KINDS["cifar10_c"].values())

"""A user's images and labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from radii import datasets
from radii.datasets import DataError
from radii.datasets.base import InMemory

LABELS = np.array([0, 2, 1, 2])


def images(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize(
    ("content", "planes"),
    [
        (images(4, 6, 5), (0, 3, 1, 2)),
        (images(4, 6, 5, 3), (0, 3, 1, 2)),
        (images(4, 6, 5, 1), (0, 3, 1, 2)),
        (images(4, 3, 6, 5), (0, 1, 2, 3)),
        (images(4, 3, 6, 5) / 255, (0, 1, 2, 3)),
        ((images(4, 6, 5, 3) / 255).astype(np.float16), (0, 3, 1, 2)),
    ],
)
def test_every_layout_becomes_channels_first(content: NDArray[Any], planes: tuple[int, ...], tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", allow_pickle=False, images=content, labels=LABELS)
    dataset = datasets.create("arrays", tmp_path / "mine.npz")
    batch = dataset.split("test").batch(torch.arange(4))
    unit = (content / 255 if content.dtype == np.uint8 else content).astype(np.float32)
    expected = (unit[..., None] if unit.ndim == 3 else unit).transpose(planes)
    assert dataset.classes == 3
    assert dataset.shape == expected.shape[1:]
    assert np.allclose(batch.numpy(), expected, atol=1e-7)
    assert dataset.split("test").labels.tolist() == LABELS.tolist()


def test_images_and_labels_are_a_test_split_only(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", allow_pickle=False, images=images(4, 6, 5), labels=LABELS)
    with pytest.raises(DataError, match="no train split: add the arrays train_images and train_labels"):
        datasets.create("arrays", tmp_path).split("train")


def test_classes_are_counted_over_both_splits(tmp_path: Path) -> None:
    both = {"train_images": images(4, 6, 5), "test_images": images(4, 6, 5)}
    np.savez(tmp_path / "arrays.npz", allow_pickle=False, **both, train_labels=LABELS, test_labels=LABELS + 4)
    assert datasets.create("arrays", tmp_path).classes == 7


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"pictures": images(4, 6, 5)}, "holds pictures, expected images and labels"),
        ({"images": images(4, 6), "labels": LABELS}, "has the shape"),
        ({"images": images(4, 2, 6, 5), "labels": LABELS}, "has the shape"),
        ({"images": images(0, 6, 5), "labels": LABELS}, "has the shape"),
        ({"images": images(4, 6, 5).astype(int), "labels": LABELS}, "is int64, expected uint8, or floats"),
        ({"images": images(4, 6, 5).astype(float), "labels": LABELS}, "pixels from 0 to 248"),
        ({"images": np.full((4, 6, 5), np.nan), "labels": LABELS}, "pixels from nan"),
        ({"images": images(4, 6, 5), "labels": LABELS[:3]}, "4 images and 3 labels"),
        ({"images": images(4, 6, 5), "labels": LABELS - 1}, "labels from -1 to 1"),
        ({"images": images(4, 6, 5), "labels": LABELS / 2}, "is float64"),
        ({"images": images(4, 6, 5), "labels": LABELS[:, None]}, "expected integers"),
        (
            {
                "train_images": images(4, 6, 5),
                "train_labels": LABELS,
                "test_images": images(4, 5, 5),
                "test_labels": LABELS,
            },
            "images of 2 shapes",
        ),
    ],
)
def test_bad_arrays_are_errors(content: dict[str, NDArray[Any]], sentence: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", allow_pickle=False, **content)
    with pytest.raises(DataError, match=sentence):
        datasets.create("arrays", tmp_path)


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", images=np.array([{}]), labels=LABELS)
    with pytest.raises(DataError, match="of plain arrays"):
        datasets.create("arrays", tmp_path)


def test_file_that_is_not_npz_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", LABELS)
    with pytest.raises(DataError, match=r"one.npy is not a whole \.npz file"):
        datasets.create("arrays", tmp_path / "one.npy")


def test_missing_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"there is no file .*arrays\.npz"):
        datasets.create("arrays", tmp_path)
    monkeypatch.delenv("RADII_DATA", raising=False)
    with pytest.raises(DataError, match=r"arrays needs an \.npz file"):
        datasets.create("arrays")


def test_a_digest_names_pixels_and_labels() -> None:
    images, labels = torch.arange(3 * 64, dtype=torch.uint8).view(3, 1, 8, 8), torch.tensor([0, 1, 2])
    split = InMemory(images, labels)
    assert split.digest == InMemory(images.clone(), labels.clone()).digest
    other_pixel = images.clone()
    other_pixel[1, 0, 0, 0] += 1
    changed = InMemory(other_pixel, labels), InMemory(images, torch.tensor([0, 2, 1])), InMemory(images[:2], labels[:2])
    assert len({split.digest, *(other.digest for other in changed)}) == 4
    assert [split.image_digest(index) == changed[0].image_digest(index) for index in range(3)] == [True, False, True]
    assert [split.image_digest(index) == changed[1].image_digest(index) for index in range(3)] == [True, False, False]


def test_an_image_has_the_same_digest_as_bytes_and_as_floats() -> None:
    images, labels = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8), torch.tensor([3])
    as_bytes, as_floats = InMemory(images, labels), InMemory(images.float() / 255, labels)
    assert as_bytes.image_digest(0) == as_floats.image_digest(0)
    assert len(as_bytes.image_digest(0)) == 16

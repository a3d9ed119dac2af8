"""GTSRB: the publisher's folders, the arrays, whole tracks for validation, and no flips."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from radii import datasets
from radii.datasets import DataError

TRACKS, FRAMES = 4, 5


def picture(value: int, size: tuple[int, int] = (41, 37)) -> Image.Image:
    return Image.new("RGB", size, (value, value, 0))


def write_publishers(folder: Path, training: str = "Final_Training/Images") -> None:
    """Three classes of four tracks of five frames, and six test pictures; the values say which is which."""
    for label in range(3):
        inner = folder / "GTSRB" / training / f"{label:05}"
        inner.mkdir(parents=True)
        (inner / f"GT-{label:05}.csv").write_text("Filename;ClassId\n")
        for track in range(TRACKS):
            for frame in range(FRAMES):
                picture(50 * label + 10 * track + frame).save(inner / f"{track:05}_{frame:05}.ppm")
    test = folder / "GTSRB" / "Final_Test" / "Images"
    test.mkdir(parents=True)
    rows = ["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"]
    for number in range(6):
        picture(100 + number).save(test / f"{number:05}.ppm")
        rows.append(f"{number:05}.ppm;41;37;5;5;35;30;{40 + number % 3}")
    (folder / "GTSRB" / "GT-final_test.csv").write_text("\n".join(rows) + "\n")


def arrays(count: int, **others: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
    images = np.random.default_rng(count).integers(0, 256, (count, 32, 32, 3), np.uint8)
    return {"images": images, "labels": np.arange(count, dtype=np.uint8) % 43, **others}


@pytest.mark.parametrize("training", ["Final_Training/Images", "Training"])
def test_pictures_are_read_from_the_publishers_folders(training: str, tmp_path: Path) -> None:
    write_publishers(tmp_path, training)
    dataset = datasets.create("gtsrb", tmp_path)
    train, test = dataset.split("train"), dataset.split("test")
    assert train.labels.bincount().tolist() == [TRACKS * FRAMES] * 3
    assert test.labels.tolist() == [40, 41, 42, 40, 41, 42]
    values = test.batch(torch.arange(6)).mul(255).round()
    assert values[:, 0].amax((1, 2)).tolist() == values[:, 1].amin((1, 2)).tolist() == [100, 101, 102, 103, 104, 105]


def test_validation_is_whole_tracks(tmp_path: Path) -> None:
    write_publishers(tmp_path)
    dataset = datasets.create("gtsrb", tmp_path, validation=12)
    groups = dataset.groups()
    assert groups is not None
    assert len(groups.unique()) == 3 * TRACKS
    held, rest = (dataset.part(part).positions for part in ("validation", "train"))  # type: ignore[attr-defined]
    assert len(held) == 3 * FRAMES
    assert sorted([*held.tolist(), *rest.tolist()]) == list(range(60))
    assert not set(groups[held].tolist()) & set(groups[rest].tolist())


def test_validation_must_leave_a_track(tmp_path: Path) -> None:
    write_publishers(tmp_path)
    with pytest.raises(DataError, match="dataset.validation = 58 leaves none"):
        datasets.create("gtsrb", tmp_path, validation=58).part("train")


def test_signs_are_shifted_but_not_flipped(tmp_path: Path) -> None:
    ramp = np.zeros((8, 32, 32, 3), np.uint8)
    ramp[:] = np.arange(100, 132, dtype=np.uint8)[None, None, :, None]
    np.savez(tmp_path / "train.npz", allow_pickle=False, images=ramp, labels=np.zeros(8, np.uint8))
    rows = datasets.create("gtsrb", tmp_path).split("train").batch(torch.arange(8), torch.Generator().manual_seed(1))
    inside = rows[:, 0, 16, 4:28]
    assert bool((inside.diff(dim=1) > 0).all())
    assert len(inside[:, 0].unique()) > 1


def test_arrays_without_tracks_have_no_validation(tmp_path: Path) -> None:
    np.savez(tmp_path / "train.npz", allow_pickle=False, **arrays(50))
    dataset = datasets.create("gtsrb", tmp_path, validation=5)
    assert len(dataset.split("train")) == 50
    with pytest.raises(DataError, match="has no track for every picture"):
        dataset.part("validation")


def test_missing_files_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", allow_pickle=False, labels=np.zeros(3, np.uint8))
    with pytest.raises(DataError, match="lacks the array images"):
        datasets.create("gtsrb", tmp_path).split("test")
    with pytest.raises(DataError, match="no train pictures in .*GTSRB/Final_Training/Images"):
        datasets.create("gtsrb", tmp_path).split("train")


def test_a_table_without_labels_is_refused(tmp_path: Path) -> None:
    write_publishers(tmp_path)
    (tmp_path / "GTSRB" / "GT-final_test.csv").write_text("Filename;Width\n00000.ppm;41\n")
    with pytest.raises(DataError, match="lacks labels.*ClassId"):
        datasets.create("gtsrb", tmp_path).split("test")


def test_a_picture_of_any_size_can_be_predicted(tmp_path: Path) -> None:
    write_publishers(tmp_path)
    prepared = datasets.preparation("gtsrb", {}, (3, 32, 32))
    first = prepared.read(tmp_path / "GTSRB" / "Final_Test" / "Images" / "00003.ppm")
    assert torch.equal(first, datasets.create("gtsrb", tmp_path).split("test").batch(torch.tensor([3]))[0])

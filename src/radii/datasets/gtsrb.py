"""GTSRB: 39,209 + 12,630 pictures of German traffic signs in 43 classes, at 32x32 (Stallkamp et al. 2012)."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.datasets._files import folders, read_npz
from radii.datasets._image_files import Preparation, open_image
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, in_memory
from radii.smoothing.normalisation import Normalisation

SIDE = 32
TRAINING_FOLDERS = ("Final_Training/Images", "Training")
"""The folder of the training pictures in the publisher's archives, of the benchmark and of the newer one."""
TEST_FOLDER, TEST_LABELS = "Final_Test/Images", "GT-final_test.csv"
_LIMITS = [f"speed limit {limit}" for limit in (20, 30, 50, 60, 70, 80)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Gtsrb(Dataset):
    """The publisher's pictures from their folder GTSRB, or the arrays of train.npz and test.npz.

    A file of arrays holds `images` [n, 32, 32, 3], `labels` [n] and, for training, `track` [n]: which track of its
    class a picture is from. A track shows one sign many times, so validation pictures are whole tracks.
    """

    shape: ClassVar[Shape] = (3, SIDE, SIDE)
    class_names: ClassVar[tuple[str, ...]] = (
        *_LIMITS,
        *("end of speed limit 80", "speed limit 100", "speed limit 120", "no passing", "no passing for trucks"),
        *("right of way", "priority road", "yield", "stop", "no vehicles", "no trucks", "no entry", "danger"),
        *("curve to the left", "curve to the right", "double curve", "bumpy road", "slippery road"),
        *("road narrows", "road work", "traffic lights", "pedestrians", "children", "bicycles", "ice or snow"),
        *("wild animals", "end of all limits", "turn right", "turn left", "straight ahead", "straight or right"),
        *("straight or left", "keep right", "keep left", "roundabout", "end of no passing"),
        "end of no passing for trucks",
    )
    normalisation: ClassVar[Normalisation] = Normalisation((0.340, 0.312, 0.321), (0.275, 0.264, 0.270))

    @classmethod
    def preparation(cls, shape: Shape, fields: Mapping[str, Any], grey: bool = False) -> Preparation:
        return Preparation(f"resized to {SIDE} x {SIDE} pixels", lambda path: _as_tensor(_read_resized(path)))

    def split(self, split: Split) -> InMemory:
        arrays, where = self._arrays(split)
        images = in_memory(arrays["images"], arrays["labels"], self.shape, self.classes, where)
        return InMemory(images.images, images.labels, augmented=split == "train", flips=False)

    def groups(self) -> Tensor:
        """Return the track of every training picture; tracks of different classes have different numbers."""
        arrays, where = self._arrays("train")
        tracks, labels = arrays.get("track"), arrays["labels"]
        if tracks is None or tracks.shape != labels.shape or not np.issubdtype(tracks.dtype, np.integer):
            raise DataError(f"{where} has no track for every picture: add the array track, or leave out validation")
        return torch.from_numpy(tracks.astype(np.int64) * self.classes + labels.astype(np.int64))

    def _arrays(self, split: Split) -> tuple[dict[str, NDArray[Any]], str]:
        """Read images, labels and tracks of a split; return also the file or folder that holds them."""
        places = folders(self.name, self.data)
        for folder in places:
            if (file := folder / f"{split}.npz").is_file():
                return _checked(read_npz(file), file), str(file)
            for base in (folder / "GTSRB", folder):
                read = _training_arrays if split == "train" else _test_arrays
                if (arrays := read(base)) is not None:
                    return arrays, str(base)
        raise DataError(
            f"gtsrb has no {split} pictures in {places[0]}: unpack the publisher's archives there, "
            f"so that it has GTSRB/{TRAINING_FOLDERS[0]} and GTSRB/{TEST_FOLDER} with {TEST_LABELS}",
            "data",
        )


def _checked(arrays: dict[str, NDArray[Any]], file: Path) -> dict[str, NDArray[Any]]:
    if missing := {"images", "labels"} - set(arrays):
        raise DataError(f"{file} lacks the array {min(missing)}, expected images and labels")
    return arrays


def _training_arrays(base: Path) -> dict[str, NDArray[Any]] | None:
    """Read the training pictures CLASS/TRACK_FRAME.ppm; None if there is no folder of them."""
    folder = next((base / name for name in TRAINING_FOLDERS if (base / name).is_dir()), None)
    if folder is None:
        return None
    files = sorted(folder.glob("[0-9]*/*_*.ppm"))
    try:
        labels, tracks = [int(file.parent.name) for file in files], [int(file.name.partition("_")[0]) for file in files]
    except ValueError as error:
        raise DataError(f"{folder} has pictures with other names than CLASS/TRACK_FRAME.ppm ({error})") from error
    return {"images": _read_all(files), "labels": np.array(labels), "track": np.array(tracks)}


def _test_arrays(base: Path) -> dict[str, NDArray[Any]] | None:
    """Read the test pictures in the order of their table; None if there is no table."""
    table = next((path for path in (base / TEST_LABELS, base / TEST_FOLDER / TEST_LABELS) if path.is_file()), None)
    if table is None:
        return None
    try:
        with table.open(encoding="utf-8", newline="") as lines:
            rows = [(row["Filename"], int(row["ClassId"])) for row in csv.DictReader(lines, delimiter=";")]
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(
            f"{table} lacks labels ({error}): take the table of GTSRB_Final_Test_GT.zip, which has a column ClassId"
        ) from error
    folder = base / TEST_FOLDER
    return {
        "images": _read_all([folder / Path(name).name for name, _ in rows]),
        "labels": np.array([label for _, label in rows]),
    }


def _read_all(files: Sequence[Path]) -> NDArray[np.uint8]:
    return np.stack([_read_resized(file) for file in files]) if files else np.empty((0, SIDE, SIDE, 3), np.uint8)


def _read_resized(path: Path) -> NDArray[np.uint8]:
    """Read a picture of any size as bytes [32, 32, 3]."""
    try:
        with open_image(path) as image:
            return np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    except OSError as error:
        raise DataError(f"cannot read {path} as an image: {error.strerror or error}") from error


def _as_tensor(pixels: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255))

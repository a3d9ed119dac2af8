"""SVHN's .mat files that hold something else."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io
from numpy.typing import NDArray

from radii import datasets
from radii.datasets import DataError


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"X": np.zeros((32, 32, 3, 5), np.uint8)}, "does not hold the arrays X and y"),
        ({"X": np.zeros((32, 32, 1, 5), np.uint8), "y": np.ones((5, 1), np.uint8)}, "expected uint8"),
        ({"X": np.zeros((32, 32, 3, 5)), "y": np.ones((5, 1), np.uint8)}, "X is float64"),
        ({"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.full((5, 1), 0.5)}, "y is float64"),
        ({"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.ones((4, 1), np.uint8)}, "5 images and 4 labels"),
        ({"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.full((5, 1), 11, np.uint8)}, "expected 0 to 9"),
    ],
)
def test_mat_file_without_the_arrays_is_an_error(
    content: dict[str, NDArray[np.generic]], sentence: str, tmp_path: Path
) -> None:
    scipy.io.savemat(tmp_path / "test_32x32.mat", content)
    with pytest.raises(DataError, match=sentence):
        datasets.create("svhn", tmp_path).split("test")

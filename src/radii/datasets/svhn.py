"""SVHN: 73,257 + 26,032 digits of house numbers, 32x32 (Netzer et al. 2011)."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.io
import torch
from numpy.typing import NDArray

from radii.datasets._files import Published, locate, md5_of, read_npy
from radii.datasets.base import DataError, Dataset, InMemory, Shape, Split, checked_labels

SITE = "http://ufldl.stanford.edu/housenumbers"
READER = Path(__file__).with_name("_read_mat.py")
READER_SECONDS = 120
READER_MEMORY = 1 << 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Svhn(Dataset):
    shape: ClassVar[Shape] = (3, 32, 32)
    class_names: ClassVar[tuple[str, ...]] = tuple("0123456789")
    files: ClassVar[dict[Split, Published]] = {
        "train": Published(f"{SITE}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        "test": Published(f"{SITE}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    }

    def split(self, split: Split) -> InMemory:
        (path,) = locate(self.name, self.data, [self.files[split]])
        pixels, digits = read_mat(path, self.files[split].md5)
        images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)))
        numbers = torch.from_numpy(digits.astype(np.int64).ravel())
        labels = checked_labels(torch.where(numbers == 10, 0, numbers), len(images), self.classes, str(path))
        return InMemory(images, labels, augmented=split == "train")


def read_mat(path: Path, md5: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read X, [height, width, channel, image] bytes, and y, [image, 1], where 10 stands for the digit 0."""
    content = _read_arrays(path, md5)
    pixels, digits = content.get("X"), content.get("y")
    if pixels is None or digits is None:
        raise DataError(f"{path} does not hold the arrays X and y: fetch it again")
    if pixels.dtype != np.uint8 or pixels.shape[:3] != (32, 32, 3) or pixels.ndim != 4:
        raise DataError(f"{path}: X is {pixels.dtype} {list(pixels.shape)}, expected uint8 [32, 32, 3, n]")
    if not np.issubdtype(digits.dtype, np.integer):
        raise DataError(f"{path}: y is {digits.dtype}, expected integers from 1 to 10")
    return pixels, digits


def _read_arrays(path: Path, md5: str) -> dict[str, NDArray[Any]]:
    """Read the publisher's file, recognised by its hash, in this process and any other file in a separate one."""
    if md5_of(path) == md5:
        content: dict[str, NDArray[Any]] = scipy.io.loadmat(path, variable_names=("X", "y"))
        return content
    with tempfile.TemporaryDirectory(prefix="radii-mat-") as folder:
        try:
            code, errors = _run_reader(str(path.resolve()), folder, str(READER_MEMORY))
        except subprocess.TimeoutExpired as error:
            raise DataError(f"{path} is not a whole .mat file (reading takes too long): fetch it again") from error
        if code:
            last = (errors.decode(errors="replace").strip().splitlines() or ["the reader crashed"])[-1]
            raise DataError(f"{path} is not a whole .mat file ({last[:200]}): fetch it again")
        return {file.stem: read_npy(file) for file in Path(folder).glob("*.npy")}


def _run_reader(*arguments: str) -> tuple[int, bytes]:
    """Run the reader in a separate process; return its exit code and its errors."""
    command = [sys.executable, "-P", str(READER), *arguments]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, env=one_thread, timeout=READER_SECONDS, check=False)
    return done.returncode, done.stderr

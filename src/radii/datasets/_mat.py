"""The .mat files of SVHN: the publisher's are read in this process, others in a separate one."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import scipy.io
from numpy.typing import NDArray

from radii.datasets._bounded import read_npy
from radii.datasets._published import md5_of
from radii.datasets.base import DataError

SECONDS = 120
MEMORY = 1 << 32
CHILD = Path(__file__).with_name("_mat_child.py")


def read_arrays(path: Path, md5: str) -> dict[str, NDArray[Any]]:
    """X and y of a .mat file, where it has them; a file with another hash than `md5` is read in a separate process."""
    if md5_of(path) == md5:
        found: dict[str, NDArray[Any]] = scipy.io.loadmat(path, variable_names=("X", "y"))
        return found
    with tempfile.TemporaryDirectory(prefix="radii-mat-") as folder:
        _convert(path, Path(folder))
        return {file.stem: read_npy(file) for file in Path(folder).glob("*.npy")}


def _convert(path: Path, folder: Path) -> None:
    try:
        code, errors = _in_a_child(str(path.resolve()), str(folder), str(MEMORY))
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{path} is not a whole .mat file (reading takes too long): fetch it again") from error
    if code:
        last = (errors.decode(errors="replace").strip().splitlines() or ["the reader crashed"])[-1]
        raise DataError(f"{path} is not a whole .mat file ({last[:200]}): fetch it again")


def _in_a_child(*arguments: str) -> tuple[int, bytes]:
    """The exit code and the errors of the script in a process of its own."""
    command = [sys.executable, "-P", str(CHILD), *arguments]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, env=one_thread, timeout=SECONDS, check=False)
    return done.returncode, done.stderr

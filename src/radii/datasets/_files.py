"""Find or download publishers' files, verified by hash; read packed files within a limit of memory."""

import gzip
import hashlib
import io
import math
import os
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from radii import disk
from radii.datasets._images import DataError

SECONDS_TO_ANSWER = 10
ALWAYS, RATIO = 1 << 26, 20
"""A packed file may unpack to 64 MB, or to twenty times its size if that is more; real images reach five times."""
CHUNK = 1 << 20
MOST_DIMENSIONS = 8
ARRAY_TYPES = "uifbUS"
"""Allowed types of arrays: numbers, booleans and text; no objects, which could run code."""


@dataclass(frozen=True)
class Published:
    """A publisher's file: where it can be downloaded, and the hash that verifies it."""

    url: str
    md5: str
    unpacked: str = ""
    """The folder that the archive unpacks to, which may be used instead of the archive."""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def existing_folder(path: Path) -> Path:
    """Return the folder, or raise a DataError if there is none."""
    if not path.is_dir():
        raise DataError(f"there is no folder {path}: create it, or name another", "data")
    return path


def folders(dataset: str, data: Path | None) -> list[Path]:
    """Return the folders that may hold a dataset's files, at `data` or in the cache; a download goes to the first."""
    if data is None:
        return [_cache() / "radii" / dataset]
    return [existing_folder(data) / dataset, data]


def locate(dataset: str, data: Path | None, files: Sequence[Published]) -> list[Path]:
    """Return the paths of a publisher's files; download those that are missing."""
    places = folders(dataset, data)
    for folder in places:
        paths = [folder / file.name for file in files]
        if all(path.is_file() for path in paths):
            return paths
    try:
        return [_download(places[0], file) for file in files]
    except Exception as error:
        # A wrong hash is a ValueError with its own message; network errors are too long to show.
        reason = str(error) if type(error) is ValueError else type(error).__name__
        listing = " and ".join(f"{f.name} (or its folder {f.unpacked})" if f.unpacked else f.name for f in files)
        raise DataError(
            f"{dataset} was not found and cannot be downloaded ({reason}): put {listing} "
            f"into {places[0]}, or name another folder",
            "data",
        ) from error


def _cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or Path.home() / ".cache")


def _download(folder: Path, file: Published) -> Path:
    path = folder / file.name
    if not path.is_file():
        with urllib.request.urlopen(file.url, timeout=SECONDS_TO_ANSWER) as answer:
            content = answer.read()
        if (md5 := hashlib.md5(content, usedforsecurity=False).hexdigest()) != file.md5:
            raise ValueError(f"md5 {md5} of {file.url} does not match the known hash {file.md5}")
        disk.make_folder(folder)
        disk.write(path, content)
    return path


def md5_of(path: Path) -> str:
    """Return the MD5 of a file, which publishers state."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def most_unpacked(packed: int) -> int:
    """Return the bytes that a file of `packed` bytes may unpack to."""
    return max(ALWAYS, RATIO * packed)


class Limited(io.RawIOBase):
    """A stream that raises a DataError after more than `most` bytes."""

    def __init__(self, stream: gzip.GzipFile, most: int, path: Path) -> None:
        super().__init__()
        self.stream, self.left, self.path = stream, most, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.stream.read(len(buffer))
        self.left -= len(content)
        if self.left < 0:
            raise DataError(f"{self.path} unpacks to far more than its size warrants: it is corrupt or malicious")
        buffer[: len(content)] = content
        return len(content)


def gunzip(path: Path) -> bytes:
    """Read a gzipped file."""
    try:
        with gzip.open(path) as stream:
            return Limited(stream, most_unpacked(path.stat().st_size), path).read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is truncated or corrupt ({error}): fetch it again") from error


def read_npy(path: Path) -> NDArray[Any]:
    """Read a .npy file of plain numbers; refuse objects and a wrong size."""
    try:
        with path.open("rb") as file:
            return _read_array(file, path.stat().st_size)
    except Exception as error:
        # numpy's parser of headers raises errors of many kinds.
        raise DataError(f"{path} is not a whole .npy file of plain numbers ({_reason(error)})") from error


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file, by name."""
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > most_unpacked(path.stat().st_size):
                raise ValueError("it unpacks to far more than its size warrants")
            for member in members:
                with archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = _read_array(stream, member.file_size)
    except Exception as error:
        # Zip, zlib and numpy each raise different errors.
        raise DataError(
            f"{path} is not a whole .npz file of plain arrays ({_reason(error)}): write it with numpy.savez"
        ) from error
    return arrays


def _read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """Read the array in a stream of `size` bytes; memory is allocated only if the header agrees with the size."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is not known")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if dtype.kind not in ARRAY_TYPES or dtype.hasobject:
        raise ValueError(f"it holds {dtype}, expected numbers")
    if len(shape) > MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError(f"it states {len(shape)} dimensions")
    count = math.prod(shape)
    if count * dtype.itemsize > size:
        raise ValueError(f"it states {count * dtype.itemsize:,} bytes and has {size:,}")
    flat = _read_bytes(stream, count * dtype.itemsize).view(dtype)
    while stream.read(CHUNK):  # a zip's checksum comes at the end
        pass
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _read_bytes(stream: IO[bytes], size: int) -> NDArray[np.uint8]:
    content = np.empty(size, np.uint8)
    filled = 0
    while filled < size:
        if not (chunk := stream.read(min(CHUNK, size - filled))):
            raise ValueError(f"it ends after {filled:,} bytes of {size:,}")
        content[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
        filled += len(chunk)
    return content


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__

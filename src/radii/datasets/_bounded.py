"""Reads packed files with a limit on the memory that they unpack to."""

import gzip
import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from radii.datasets.base import DataError

ALWAYS, RATIO = 1 << 26, 20
"""What a packed file may unpack to: 64 MB, or twenty times its size if that is more. Real images reach five."""
CHUNK = 1 << 20
MOST_DIMENSIONS = 8
KINDS = "uifbUS"
"""Allowed types of arrays: numbers, booleans and text; no objects, which could run code."""


def most_unpacked(packed: int) -> int:
    """The bytes that a file of `packed` bytes may unpack to."""
    return max(ALWAYS, RATIO * packed)


class Limited(io.RawIOBase):
    """A stream that refuses to give more than `most` bytes."""

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
    """The content of a gzipped file."""
    try:
        with gzip.open(path) as stream:
            return Limited(stream, most_unpacked(path.stat().st_size), path).read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is truncated or corrupt ({error}): fetch it again") from error


def read_npy(path: Path) -> NDArray[Any]:
    """The array of a .npy file of plain numbers; objects and a wrong size are refused."""
    try:
        with path.open("rb") as file:
            return _array(file, path.stat().st_size)
    except Exception as error:
        # numpy's parser of headers raises errors of many kinds.
        raise DataError(f"{path} is not a whole .npy file of plain numbers ({_reason(error)})") from error


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file, under their names."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > most_unpacked(path.stat().st_size):
                raise ValueError("it unpacks to far more than its size warrants")
            return {member.filename.removesuffix(".npy"): _member(archive, member) for member in members}
    except Exception as error:
        # Zip, zlib and numpy each raise different errors.
        raise DataError(
            f"{path} is not a whole .npz file of plain arrays ({_reason(error)}): write it with numpy.savez"
        ) from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        return _array(stream, member.file_size)


def _array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """The array of a stream of `size` bytes: memory is allocated only if the header agrees."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in KINDS or dtype.hasobject:
        raise ValueError(f"it holds {dtype}, expected numbers")
    if len(shape) > MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError(f"it states {len(shape)} dimensions")
    count = math.prod(shape)
    if count * dtype.itemsize > size:
        raise ValueError(f"it states {count * dtype.itemsize:,} bytes and has {size:,}")
    flat = _filled(stream, count * dtype.itemsize).view(dtype)
    while stream.read(CHUNK):  # a zip's checksum comes at the end
        pass
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _filled(stream: IO[bytes], size: int) -> NDArray[np.uint8]:
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

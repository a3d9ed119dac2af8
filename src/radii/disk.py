"""All writes of the package; each is atomic, at whatever moment a process is killed."""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write(path: Path, content: bytes | str, *, keep: Path | None = None) -> None:
    """Replace a file atomically: a reader or a kill leaves the old content or the new, never a part.

    If `keep` is given, the old content is moved there; one of the two files is complete at any moment.
    """
    new = _aside(path)
    try:
        _write_new(new, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        remove(new)
        raise _naming(path, error) from error
    if keep is not None and path.is_file():
        os.replace(path, keep)  # noqa: PTH105  all writes go through os, so that tests can interrupt each of them
    os.replace(new, path)  # noqa: PTH105
    _sync_folder(path.parent)


def append(path: Path, content: bytes, *, create: bool = False) -> None:
    """Append in a single write; a partial write on a full disk is undone. `create` allows a new file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0), 0o666)
    try:
        size = os.fstat(descriptor).st_size
        if os.write(descriptor, content) != len(content):
            os.ftruncate(descriptor, size)
            raise OSError(f"{path}: the disk is full; free some space and run the command again")
    except OSError as error:
        raise _naming(path, error) from error
    finally:
        os.close(descriptor)


def truncate(path: Path, size: int) -> None:
    """Cut a file to its first `size` bytes."""
    os.truncate(path, size)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, where they do not exist."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            with suppress(FileExistsError):
                os.mkdir(folder)  # noqa: PTH102
    if not path.is_dir():
        raise NotADirectoryError(f"{path} should be a folder, but a file of that name exists: move it away")


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def sweep(folder: Path, names: Iterable[str]) -> None:
    """Remove the temporary files that killed processes left for these files; the caller holds their lock."""
    asides = tuple(f".{name}." for name in names)
    for path in list(folder.iterdir()):
        if path.name.startswith(asides) and path.suffix[1:].isdecimal():
            remove(path)


def _naming(path: Path, error: OSError) -> OSError:
    """The error with the file that was to be written: the system's own, of a full disk say, names none."""
    return error if error.errno is None else OSError(error.errno, error.strerror, str(path))


def _aside(path: Path) -> Path:
    """The temporary file for new content, unique for every thread of a machine."""
    return path.with_name(f".{path.name}.{threading.get_native_id()}")


def _write_new(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the file system supports it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

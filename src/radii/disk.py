"""Write files atomically, digest and lock them. All writes of the package go through this module."""

import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from radii.errors import ParameterError

Value = TypeVar("Value")
CLOCK_TICK = 20_000_000
"""Nanoseconds between two time stamps of a file system, at most."""
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""The errors of a file system without locks."""


class LockedError(ParameterError):
    """Another process holds the lock."""


# Writes. They call os directly, so that tests can interrupt each call.


def write(path: Path, content: bytes | str, *, keep: Path | None = None, private: bool = False) -> None:
    """Replace a file atomically: after a kill it has the old content or the new, never a part.

    If `keep` is given, the old content is moved there; at any moment one of the two files is complete. A `private` file
    can be read by its owner alone.
    """
    new = path.with_name(f".{path.name}.{threading.get_native_id()}")  # no other thread of this machine uses this name
    try:
        remove(new)  # a killed process left it, or a stranger put a link there
        _write_new(new, content.encode() if isinstance(content, str) else content, 0o600 if private else 0o666)
    except OSError as error:
        remove(new)
        raise _with_path(error, path) from error
    try:
        if keep is not None and path.is_file():
            os.replace(path, keep)  # noqa: PTH105
        os.replace(new, path)  # noqa: PTH105
    except OSError as error:
        raise _with_path(error, path) from error
    _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON with sorted keys."""
    write(path, to_json(value))


def to_json(value: Any) -> str:
    """Return indented JSON with sorted keys."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def append(path: Path, content: bytes, *, create: bool = False, sync: bool = False) -> None:
    """Append in a single write; a partial write on a full disk is undone. `create` allows a new file.

    With `sync` the content is on the disk when this returns.
    """
    descriptor = _open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0))
    try:
        size = os.fstat(descriptor).st_size
        if os.write(descriptor, content) != len(content):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, "the disk is full; free some space and run the command again")
        if sync:
            os.fsync(descriptor)
    except OSError as error:
        raise _with_path(error, path) from error
    finally:
        os.close(descriptor)


def truncate(path: Path, size: int) -> None:
    """Cut a file to its first `size` bytes."""
    descriptor = _open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
    except OSError as error:
        raise _with_path(error, path) from error
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless they exist."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            try:
                os.mkdir(folder)  # noqa: PTH102
            except FileExistsError:
                pass
            except OSError as error:
                raise _with_path(error, folder) from error
    if not path.is_dir():
        raise NotADirectoryError(f"{path} should be a folder, but a file of that name exists: move it away")


def move_folder(folder: Path, target: Path) -> None:
    """Rename a finished folder in one step; nothing may exist at the target."""
    try:
        os.rename(folder, target)  # noqa: PTH104
    except OSError as error:
        raise _with_path(error, target) from error
    _sync_folder(target.parent)


def sweep(folder: Path, names: Iterable[str]) -> None:
    """Remove the temporary files that killed processes left for these files. The caller holds their lock."""
    prefixes = tuple(f".{name}." for name in names)
    for path in list(folder.iterdir()):
        if path.name.startswith(prefixes) and path.suffix[1:].isdecimal():
            remove(path)


def _with_path(error: OSError, path: Path) -> OSError:
    """Add the path to a system error: the error of a full disk names no file."""
    return error if error.errno is None else OSError(error.errno, error.strerror, str(path))


def _open(path: Path, flags: int) -> int:
    """Open a file to change it. Links and pipes are refused, because a run may come from a stranger."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, where a file belongs: remove it", str(path)) from error
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe, where a file belongs: remove it", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file: remove it", str(path))
    return descriptor


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
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


# Digests, and other values that are computed from a file


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileCache:
    """Keeps values that are computed from files, such as digests; a value is computed again if its file changed."""

    def __init__(self) -> None:
        self._values: dict[tuple[Path, Callable[[Path], Any]], tuple[tuple[int, ...], Any]] = {}

    def get(self, path: Path, compute: Callable[[Path], Value]) -> Value:
        """Return `compute(path)`, from the cache if the file has not changed."""
        now, state = time.time_ns(), _state(path)
        known, value = self._values.get((path, compute), (None, None))
        if state == known:
            return cast("Value", value)
        value = compute(path)
        # A file that changed just now may change again without another time stamp.
        *_, modified, changed = state
        if now - max(modified, changed) > CLOCK_TICK and _state(path) == state:
            self._values[path, compute] = state, value
        return value


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers that change with the content of a file; the times come last."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# Locks


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock on a file or folder. If it is taken, wait, or raise a LockedError that names the holder.

    The system releases the lock when the process ends, even if it is killed, so no lock outlives its holder. Child
    processes do not inherit it. The lock file names the holder and is removed with the lock.
    """
    file = lock_file(path)
    descriptor = _acquire(path, file, wait)
    try:
        _name_holder(descriptor, file)
        yield
    finally:
        remove(file)  # before the lock is released: another process may take it right after
        os.close(descriptor)


def _name_holder(descriptor: int, file: Path) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
    except OSError as error:
        raise _with_path(error, file) from error


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock on a file or folder."""
    try:
        with locked(path):
            return False
    except LockedError:
        return True


def lock_file(path: Path) -> Path:
    """Return the lock file: beside a file, inside a folder."""
    return path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")


def _acquire(path: Path, file: Path, wait: bool) -> int:
    while True:
        descriptor = _open_lock(file)
        try:
            _lock(path, descriptor, wait)
        except BaseException:
            os.close(descriptor)
            raise
        # The last holder may have removed the file between opening and locking: then this locks a deleted file.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        os.close(descriptor)


def _open_lock(file: Path) -> int:
    """Open a lock file without following links: it is emptied when locked, and a run may come from a stranger."""
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise LockedError(f"{file} is a symbolic link, where a lock belongs: remove it") from error


def _lock(path: Path, descriptor: int, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        raise LockedError(f"{path} is being written by {_holder(descriptor)}: wait for it, or stop it") from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        warnings.warn(
            f"the file system of {path} has no locks: take care that no other process writes there", stacklevel=4
        )


def _holder(descriptor: int) -> str:
    """Describe the holder of a lock, from the lock file."""
    pid, _, host = os.pread(descriptor, 1000, 0).decode(errors="replace").strip().partition(" ")
    if not pid:
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"

"""Locks: one writer at a time for a file or a run, until it is done or its process ends."""

import errno
import fcntl
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from radii import disk
from radii.errors import ParameterError

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""The errors of a file system without locks."""


class LockedError(ParameterError):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock on `path`, a file or a folder; if it is taken, wait, or raise a LockedError that names the holder.

    The system releases the lock when the process ends, however it ends, so no stale lock remains; child processes do
    not inherit it. The lock file names the holder and is removed with the lock.
    """
    file = lock_file(path)
    descriptor = _acquire(path, file, wait)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
        yield
    finally:
        disk.remove(file)  # before the lock is released: another process may take it right after
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether somebody writes there at the moment."""
    try:
        with locked(path):
            return False
    except LockedError:
        return True


def lock_file(path: Path) -> Path:
    """The lock file of a file, beside it, or of a folder, inside it."""
    return path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")


def _acquire(path: Path, file: Path, wait: bool) -> int:
    """The descriptor that holds the lock."""
    while True:
        descriptor = _open(file)
        try:
            _lock(path, descriptor, wait)
        except BaseException:
            os.close(descriptor)
            raise
        # The last holder may have removed the file between opening and locking: then this locks a deleted file.
        if _is(file, descriptor):
            return descriptor
        os.close(descriptor)


def _open(file: Path) -> int:
    """The lock file, which is emptied when it is locked: a link in a stranger's run must not lead to another one."""
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise LockedError(f"{file} is a symbolic link, where a lock belongs: remove it") from error


def _is(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _lock(path: Path, descriptor: int, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        raise LockedError(f"{path} is being written by {_holder(descriptor)}: wait for it, or stop it") from error
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        warnings.warn(
            f"the file system of {path} has no locks: take care that no other process writes there", stacklevel=4
        )


def _holder(descriptor: int) -> str:
    """The holder of a lock, as text."""
    pid, _, host = os.pread(descriptor, 1000, 0).decode(errors="replace").strip().partition(" ")
    if not pid:
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"

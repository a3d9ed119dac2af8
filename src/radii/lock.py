"""One writer at a time: the right to write a file, or all of a run, held until it is done or its process ends."""

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
"""What a file system says that knows no locks."""


class LockedError(ParameterError):
    """Another process writes there at the moment."""


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the right to write `path`, a file or a folder; where another has it, wait, or say who by a LockedError.

    The system takes the lock from a process that ends, however it ends, so none is ever left behind; nor do
    processes that are started from here inherit it. The lock file says who holds it and goes with the lock.
    """
    file = lock_file(path)
    descriptor = _acquire(path, file, wait)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
        yield
    finally:
        disk.remove(file)  # before the lock is given up: it may be another's right after
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether somebody writes there at the moment."""
    try:
        with locked(path):
            return False
    except LockedError:
        return True


def lock_file(path: Path) -> Path:
    """The file beside a file, or inside a folder, whose lock stands for the right to write it."""
    return path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")


def _acquire(path: Path, file: Path, wait: bool) -> int:
    """The descriptor that carries the lock."""
    while True:
        descriptor = _open(file)
        try:
            _lock(path, descriptor, wait)
        except BaseException:
            os.close(descriptor)
            raise
        # Whoever held it may have removed the file between opening and locking: then the lock is one on nothing.
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
    """Who holds a lock, in words."""
    pid, _, host = os.pread(descriptor, 1000, 0).decode(errors="replace").strip().partition(" ")
    if not pid:
        return "another process"
    return f"process {pid}" if host == socket.gethostname() else f"process {pid} on {host}"

"""One writer at a time, and no stale locks."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from radii.disk import LockedError, lock_file, locked

HOLD = """
import subprocess, sys, time
from pathlib import Path
from radii.disk import locked
with locked(Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(child.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("folder", [False, True])
def test_second_process_gets_an_error_with_the_holder(tmp_path: Path, folder: bool) -> None:
    path = tmp_path if folder else tmp_path / "a.tsv"
    with locked(path):
        with pytest.raises(LockedError, match=rf"is being written by process {os.getpid()}: wait for it, or stop it"):
            locked(path).__enter__()
        with locked(tmp_path / "another"):
            pass
    with locked(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_error_names_a_holder_on_another_machine(tmp_path: Path) -> None:
    with locked(tmp_path):
        lock_file(tmp_path).write_text("17 elsewhere\n")
        with pytest.raises(LockedError, match="process 17 on elsewhere"):
            locked(tmp_path).__enter__()


def test_waiting_ends_with_the_lock(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path, wait=True):
            order.append("second")

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_only_one_thread_holds_the_lock(tmp_path: Path) -> None:
    """Many threads take and release it: no two hold it at the same time."""
    held = [0, 0]

    def take() -> None:
        for _ in range(50):
            with locked(tmp_path, wait=True):
                held[0] += 1
                held[1] = max(held)
                time.sleep(0)
                held[0] -= 1

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == [0, 1]


def test_lock_ends_with_its_process_though_children_live_on(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(LockedError, match=f"process {holder.pid}"):
                locked(tmp_path).__enter__()
            holder.kill()
            holder.wait()
            os.kill(child, 0)
            with locked(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_file_system_without_locks_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.warns(UserWarning, match="has no locks: take care that no other process writes there"),
        locked(tmp_path),
    ):
        pass


@pytest.mark.parametrize("exists", [True, False])
def test_symbolic_link_as_lock_file_is_refused(tmp_path: Path, exists: bool) -> None:
    """A run directory of a stranger may hold one that points at a file of the user's."""
    theirs, run = tmp_path / "theirs", tmp_path / "run"
    run.mkdir()
    if exists:
        theirs.write_text("dear to the user")
    lock_file(run).symlink_to(theirs)
    with pytest.raises(LockedError, match=r"\.lock is a symbolic link, where a lock belongs: remove it"):
        locked(run).__enter__()
    assert theirs.exists() == exists
    assert not exists or theirs.read_text() == "dear to the user"

"""Workers that are killed, fail, or lose their parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from radii.errors import ParameterError
from radii.workers import pool
from radii.workers.pool import WorkerError
from tools.mapping import map_in_processes

PARENT = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tools.mapping import map_in_processes
if __name__ == "__main__":
    for _ in map_in_processes(time.sleep, [60.0] * 4, 2):
        pass
"""


@pytest.fixture(autouse=True)
def warm_workers() -> None:
    """Start every worker as users do."""


def square(number: int) -> int:
    time.sleep(0.02 * (number % 3))
    return number * number


def killed_once(path: Path) -> str:
    """Kills its process the first time."""
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name


def killed_always(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def failing(number: int) -> int:
    if number >= 2:
        raise ParameterError(f"no {number}", "number")
    return number


def process_id(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


@pytest.mark.slow
def test_results_come_in_the_order_of_the_items() -> None:
    assert list(map_in_processes(square, range(20), 3)) == [number * number for number in range(20)]


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_item_done_again(tmp_path: Path) -> None:
    items = [tmp_path / str(number) for number in range(5)]
    assert list(map_in_processes(killed_once, items, 2)) == [path.name for path in items]


@pytest.mark.slow
def test_error_names_the_item_that_kills_every_worker() -> None:
    results = map_in_processes(killed_always, range(6), 2)
    with pytest.raises(WorkerError, match=r"3 worker processes died at image 3, the last of signal SIGKILL") as caught:
        list(results)
    assert caught.value.parameter == "workers"


@pytest.mark.slow
def test_error_is_raised_in_the_order_of_the_items() -> None:
    results = map_in_processes(failing, range(4), 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ParameterError, match="no 2") as caught:
        next(results)
    assert caught.value.parameter == "number"


@pytest.mark.slow
def test_workers_end_with_the_iterator() -> None:
    results = map_in_processes(process_id, range(10), 2)
    pid = next(results)
    os.kill(pid, 0)
    results.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def children(process: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], check=False, capture_output=True, text=True)
    return [int(word) for word in listed.stdout.split()]


def alive(process: int) -> bool:
    """Whether a process runs: one that ended but was not waited for does not."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], check=False, capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.strip().startswith("Z")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    with subprocess.Popen([sys.executable, str(tmp_path / "parent.py")]) as parent:
        deadline = time.monotonic() + 60
        while len(workers := children(parent.pid)) < 3:  # two workers, and the tracker of multiprocessing
            assert time.monotonic() < deadline
            time.sleep(0.05)
        parent.send_signal(number)
        parent.wait()
    deadline = time.monotonic() + 10
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "orphans"
        time.sleep(0.05)


def is_imported(name: str) -> tuple[int, bool]:
    return os.getpid(), name in sys.modules


def test_started_workers_import_a_module_and_take_the_calls() -> None:
    processes = pool.ProcessPool(2)
    try:
        processes.start("colorsys")
        processes.start("colorsys")  # all are running
        started = {worker.process.pid for worker in processes._workers}
        for _ in range(4):
            processes.submit(pool.Call("a call", is_imported, ("colorsys",)))
        outcomes = [processes.next()[1].value() for _ in range(4)]
    finally:
        processes.close()
    assert len(started) == 2
    assert all(pid for _, pid in outcomes)
    assert {process for process, _ in outcomes} <= started
    processes.close()  # a second time does nothing


def test_a_module_that_cannot_be_imported_does_not_end_the_workers() -> None:
    processes = pool.ProcessPool(1)
    try:
        processes.start("there.is.no.such.module")
        processes.submit(pool.Call("a call", square, (3,)))
        assert processes.next()[1].value() == 9
    finally:
        processes.close()


def test_a_worker_that_dies_before_its_first_call_is_replaced() -> None:
    processes = pool.ProcessPool(1)
    try:
        processes.start("colorsys")
        os.kill(processes._workers[0].process.pid or 0, signal.SIGKILL)
        processes._workers[0].process.join()
        processes.submit(pool.Call("a call", square, (3,)))
        assert processes.next()[1].value() == 9
    finally:
        processes.close()


def test_no_workers_are_refused_instead_of_waited_for() -> None:
    with pytest.raises(ValueError, match="workers = 0, expected a whole number >= 1"):
        next(map_in_processes(abs, [1, 2], 0))


def test_script_is_kept_when_several_threads_start_processes() -> None:
    main, both = sys.modules["__main__"], threading.Barrier(2)

    def start() -> None:
        with pool._without_main(), suppress(threading.BrokenBarrierError):
            both.wait(0.2)

    def start_later() -> None:
        with pool._without_main():
            with suppress(threading.BrokenBarrierError):
                both.wait(0.2)
            time.sleep(0.2)

    threads = [threading.Thread(target=function) for function in (start, start_later)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert sys.modules["__main__"] is main


def test_workers_do_not_import_modules_of_the_current_folder(tmp_path: Path) -> None:
    folder = tmp_path / "stranger"
    folder.mkdir()
    for name in ("threading", "selectors", "pickle", "signal"):
        (folder / f"{name}.py").write_text(f"import os\nopen({str(tmp_path / 'ran')!r}, 'w').close()\nos._exit(7)\n")
    script = tmp_path / "script.py"
    script.write_text(PARENT.replace("time.sleep, [60.0]", "time.sleep, [0.0]"))
    done = subprocess.run([sys.executable, str(script)], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "ran").exists()

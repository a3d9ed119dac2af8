"""Item 16: commands that are stopped, and workers that are killed."""

import os
import signal
import time
from pathlib import Path

from radii.runs import certificates
from radii.runs.run import Run
from radii.training.loop import train
from tools.mapping import map_in_processes
from tools.processes import RECIPE, STOPPED, copied, lines, members, start, wait_for
from tools.stress.outcome import Effort, Outcome

SECONDS = 5.0
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


def stops(effort: Effort) -> Outcome:
    """`radii certify` with two workers, ended by kill -9, SIGTERM and Ctrl-C while it writes: processes that are left
    after five seconds, exit codes, the sentence, rows; and workers of a pool that are killed while they work."""
    bad: dict[str, list[str]] = {"orphans after 5 s": [], "wrong exit codes or messages": [], "lost or doubled": []}
    trained = train(RECIPE, effort.folder / "trained")
    numbers = [signal.SIGTERM] if effort.short else list(CODES)
    for attempt in range(1):
        for number in numbers:
            _stop(trained, effort.folder / f"{attempt}-{number}", number, bad)
    killed = effort.times(20, 2)
    items = [effort.folder / f"item-{number}" for number in range(killed)]
    results = list(map_in_processes(killed_once, items, 2))
    bad["lost or doubled"] += [] if results == [path.name for path in items] else ["results of killed workers"]
    return Outcome({"stops": 1 * len(numbers), "killed workers": killed}, bad)


def killed_once(path: Path) -> str:
    """Ends its process by force the first time."""
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name


def _stop(trained: Run, folder: Path, number: signal.Signals, bad: dict[str, list[str]]) -> None:
    folder.mkdir()
    run = copied(trained, folder)
    command = ["certify", "run", "--engine", "torch", "--workers", "2", "--set", "estimation=20000"]
    with start(*command, cwd=folder) as process:
        wait_for(lambda: lines(run) > 2)
        process.kill() if number == signal.SIGKILL else os.killpg(process.pid, number)
        _, error = process.communicate(timeout=60)
    if not _gone(process.pid):
        bad["orphans after 5 s"].append(number.name)
    if process.returncode != CODES[number] or error not in ("", STOPPED) or (number != signal.SIGKILL and not error):
        bad["wrong exit codes or messages"].append(f"{number.name}: {process.returncode}, {error!r}")
    (file,) = run.certificates.glob("*.tsv")
    indices = [row.index for row in certificates.read(file).rows]
    bad["lost or doubled"] += [] if indices == list(range(len(indices))) else [f"{number.name}: {indices}"]


def _gone(group: int) -> bool:
    """Whether a group of processes ends in time."""
    deadline = time.monotonic() + SECONDS
    while members(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True

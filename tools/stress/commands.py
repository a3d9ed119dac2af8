"""Give commands in forks of this process: importing torch for every one would take most of the time.

Only `radii.cli` and the system are used, so that the same attacks can be tried on earlier versions.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch

from radii import cli
from tools.warm import WarmCommand

SECONDS = 60.0
"""The limit of one command."""
WITH_GRADIENTS = ("attack", "train", "transfer")
"""Commands that compute gradients on several threads, and may hang in a fork: they are forked from one that has not."""


class Result(NamedTuple):
    """How a command ended: its exit code, or None if it was killed after the time limit; and what it printed."""

    code: int | None
    text: str

    @property
    def is_clear(self) -> bool:
        """Whether the command ended in time, and without a traceback."""
        return self.code is not None and "Traceback (most recent call last)" not in self.text

    def __str__(self) -> str:
        words = " ".join(self.text.split()[-40:])
        return f"exit code {self.code}: {words}" if self.code is not None else f"no end after the time limit: {words}"


def radii(*arguments: object, cwd: Path, seconds: float = SECONDS, fork: bool | None = None) -> Result:
    """Run a command in a fork of this process, or of one that has computed nothing.

    OpenVINO fails in a fork of a process that used it. By default, only commands that compute gradients are not forked
    from this process.
    """
    if not (arguments[0] not in WITH_GRADIENTS if fork is None else fork):
        return _radii_of_new_process(list(map(str, arguments)), cwd, seconds)
    torch.set_num_threads(1)  # a fork has none of the threads of its parent
    log = cwd / f".output-{os.getpid()}"
    child = os.fork()
    if not child:
        _run(list(map(str, arguments)), cwd, log)
    code = _wait(child, seconds)
    text = log.read_text(errors="replace")
    log.unlink()
    return Result(code, text)


def _radii_of_new_process(arguments: list[str], cwd: Path, seconds: float) -> Result:
    with WarmCommand("radii", *arguments, cwd=cwd, keep_output=True) as command:
        try:
            text = "".join(command.communicate(seconds))
        except subprocess.TimeoutExpired:
            os.killpg(command.pid, signal.SIGKILL)
            return Result(None, "".join(command.communicate()))
    return Result(command.returncode, text)


def _run(arguments: list[str], cwd: Path, log: Path) -> None:
    """Run a command in this process, which ends here; what it prints goes to a file."""
    os.setsid()  # so that what it starts is killed with it
    output = os.open(log, os.O_CREAT | os.O_WRONLY, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    run_here(arguments, cwd)


def run_here(arguments: list[str], cwd: Path) -> NoReturn:
    """Run a command in this process, which ends here."""
    code = 1
    try:
        os.chdir(cwd)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["radii", *arguments]
        cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait(child: int, seconds: float) -> int | None:
    """Wait for a process and return its exit code; kill its group after the time limit."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None

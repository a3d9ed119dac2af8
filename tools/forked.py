"""Read .mat files in forks of one process that has scipy loaded: thousands of files in minutes.

Every file is still read in a separate process with the real limits; only the start of Python is saved.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from radii.datasets import svhn
from radii.datasets._read_mat import main as read_mat


@contextmanager
def forks() -> Iterator[None]:
    """Read .mat files in forks inside this block."""
    command = [sys.executable, "-m", "tools.forked"]
    root, pipe = Path(__file__).parents[1], subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()  # the server has started: its imports do not count as reading time

        def ask(*arguments: str) -> tuple[int, bytes]:
            assert server.stdin is not None
            assert server.stdout is not None
            print(*arguments, sep="\t", file=server.stdin, flush=True)
            code, _, error = server.stdout.readline().partition("\t")
            return int(code), error.encode()

        with mock.patch.object(svhn, "_run_reader", ask):
            yield


def serve() -> None:
    """Read every file that a line of standard input names, and answer with the exit code and the last error."""
    print("ready", flush=True)
    for line in sys.stdin:
        source, folder, memory = line.rstrip("\n").split("\t")
        errors = Path(folder) / "errors"
        if not (child := os.fork()):
            _read(source, folder, int(memory), errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        last = (errors.read_text(errors="replace").strip().splitlines() or [""])[-1]
        errors.unlink()
        print(code, last, sep="\t", flush=True)


def _read(source: str, folder: str, memory: int, errors: Path) -> None:
    """Read one file in this process, which ends here."""
    os.dup2(os.open(errors, os.O_CREAT | os.O_WRONLY), sys.stderr.fileno())
    try:
        read_mat(source, folder, memory)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    serve()

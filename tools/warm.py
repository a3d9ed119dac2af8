"""Run modules in forks of one process that has torch and radii loaded: Python needs seconds to import them.

A fork gets the arguments, the folder and the environment variables of its command, leads a session of its own, and ends
as every Python process does, but for the memory, which it leaves to the system. Nothing was computed in the process
that it is forked from, and no thread runs there.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn, Self

ROOT = Path(__file__).parents[1]
MOST_BYTES = 1 << 20
SECONDS_BETWEEN_POLLS = 0.01
LOADED = ("torch.distributed.run", "radii.certification.certify", "radii.training.loop", "radii.serving.server")


class WarmCommand:
    """A module that runs with these arguments in a fork; its methods are those of subprocess.Popen."""

    def __init__(self, module: str, *arguments: str, cwd: Path, keep_output: bool = False) -> None:
        self.args = [module, *arguments]
        self.returncode: int | None = None
        errors, child_errors = os.pipe()
        output, child_output = os.pipe() if keep_output else (None, os.open(os.devnull, os.O_WRONLY))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        request = {"command": self.args, "cwd": str(cwd.absolute()), "environment": environment}
        self.pid: int = _server().ask(request, [child_output, child_errors])
        os.close(child_output)
        os.close(child_errors)
        self.stdout: IO[str] | None = None if output is None else os.fdopen(output)
        self.stderr: IO[str] = os.fdopen(errors)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = _server().ask({"poll": self.pid}, [])
        return self.returncode

    def wait(self, timeout: float = 600) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(SECONDS_BETWEEN_POLLS)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float = 600) -> tuple[str, str]:
        """Wait for the end; return what it printed."""
        texts = {pipe: "" for pipe in (self.stdout, self.stderr) if pipe}
        readers = [threading.Thread(target=_read, args=(pipe, texts), daemon=True) for pipe in texts]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return texts[self.stdout] if self.stdout else "", texts[self.stderr]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes that are left of its session."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Wait for the end and close the pipes."""
        self.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe:
                pipe.close()


def _read(pipe: IO[str], texts: dict[IO[str], str]) -> None:
    texts[pipe] = pipe.read()


class _Server:
    """The process whose forks run the commands."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tools.warm"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=theirs.fileno(), env=environment, start_new_session=True
            )
        atexit.register(self.close)

    def ask(self, request: dict[str, Any], files: list[int]) -> Any:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            return json.loads(self._socket.recv(MOST_BYTES))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _server() -> _Server:
    return _Server()


def serve(requests: socket.socket) -> None:
    """Fork a process for every command, until the other side closes the socket."""
    for module in LOADED:
        import_module(module)
    gc.freeze()  # a collection in a fork would copy the memory of this process
    while True:
        message, files, _, _ = socket.recv_fds(requests, MOST_BYTES, 2)
        if not message:
            return
        request = json.loads(message)
        if "poll" in request:
            ended, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        elif not (answer := os.fork()):
            _run(request, files)
        for file in files:
            os.close(file)
        requests.send(json.dumps(answer).encode())


def _run(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Run a command in this process, as `python -m` does, and end."""
    code = 1
    try:
        _begin(request, files)
        runpy.run_module(request["command"][0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # these are what Python does at its end
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _begin(request: dict[str, Any], files: list[int]) -> None:
    """Take over the session, files, folder, variables and arguments of a command."""
    os.setsid()
    with Path(os.devnull).open() as nothing:
        for stream, file in enumerate([nothing.fileno(), *files]):
            os.dup2(file, stream)
    for file in files:
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (open(stream, mode) for stream, mode in enumerate("rww"))  # noqa: SIM115, PTH123
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0] = request["cwd"]
    sys.argv = list(request["command"])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore Ctrl-C
    serve(socket.socket(fileno=0))

"""Start `radii serve` in a process of its own, and ask it."""

import json
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import torch

from tools.warm import WarmCommand


class ServerProcess:
    """A running `radii serve` on a free port."""

    def __init__(self, run: Path, *options: str, token: str = "") -> None:
        arguments = [str(run), "--port", "0", "--workers", "1", "--engine", "torch", *options]
        self.token = token
        self.process = WarmCommand("radii", "serve", *arguments, cwd=Path.cwd(), keep_output=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise RuntimeError(self.process.communicate()[1])
        self.address = line.split("http://")[1].split(": ")[0]
        self.log: list[str] = []
        """The lines of its log so far."""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        self.log.extend(self.process.stderr)

    @property
    def place(self) -> tuple[str, int]:
        """Where it listens, for a socket."""
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def ask(self, body: bytes, path: str, token: str | None = None) -> dict[str, Any]:
        """Post a body and return the answer's JSON."""
        authorization = f"Bearer {self.token if token is None else token}"
        headers = {"Authorization": authorization, "Content-Type": "application/json"}
        with urlopen(Request(f"http://{self.address}{path}", body, headers), timeout=60) as answer:
            given: dict[str, Any] = json.load(answer)
        return given

    def infer(self, image: torch.Tensor, name: str = "run") -> dict[str, Any]:
        """Ask about a picture and return the whole answer."""
        given = self.ask(tensor(image), f"/v2/models/{name}/infer")
        outputs = {output["name"]: output["data"] for output in given["outputs"]}
        answer: dict[str, Any] = json.loads(outputs["answer"][0])
        return answer

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join()
        self.process.close()
        return code


def tensor(image: torch.Tensor) -> bytes:
    """Return a request of the Open Inference Protocol about one picture."""
    stated = {"name": "image", "datatype": "FP32", "shape": [1, *image.shape], "data": image.flatten().tolist()}
    return json.dumps({"inputs": [stated]}).encode()

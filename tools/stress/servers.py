"""Item 46: a server with damaged requests, slow clients, kills and reloads."""

import http.client
import io
import json
import random
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from radii.datasets import create
from radii.disk import LockedError
from radii.runs.recipe import Recipe, Training
from radii.serving.audit import verify_evidence
from radii.serving.evidence import read_log
from radii.serving.model import ModelConfig
from radii.serving.server import ServerConfig, serve
from radii.training.loop import train
from tools.damaged_requests import STATUSES, damaged, damaged_bytes
from tools.server_process import ServerProcess, tensor
from tools.stress.outcome import Effort, Outcome

CLIENTS, SLOW, REPLAYED = 4, 40, 50
BUSY = 503
KINDS = ("tracebacks", "wrong statuses", "wrong answers", "lost answers", "broken chains", "servers that ended")


def faults(effort: Effort) -> Outcome:
    """`radii serve` gets requests with damaged bytes, headers, paths, JSON and pictures, among good ones, while slow
    clients hold connections. It is killed with -9 in the middle and started again, reloaded under load, and a second
    server is started on its evidence: no client may see a traceback or a wrong answer, every answer that was seen must
    be in the evidence, whose chain must be whole, and answers must come out again."""
    training = Training(epochs=1, images_per_step=64, learning_rate=0.05)
    run = train(Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training), effort.folder / "run").path
    trial = _Trial(run, effort.folder / "evidence", effort.seed)
    requests = effort.times(12_000, 200)
    trial.phase(requests // 3)
    trial.kill()
    trial.phase(requests // 3, reloads=2)
    trial.second_server()
    trial.phase(requests // 3)
    trial.finish()
    tried = {"damaged requests": trial.sent, "good ones": len(trial.seen), "slow clients": 3 * SLOW}
    return Outcome({**tried, "kills": 1, "reloads": 2, "replayed answers": trial.replayed}, trial.bad)


class _Trial:
    """A server under trial, and what was seen of it."""

    def __init__(self, run: Path, evidence: Path, seed: int) -> None:
        self.run, self.evidence, self.seed = run, evidence, seed
        self.bad: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.seen: list[dict[str, Any]] = []
        self.sent = self.replayed = self._phases = 0
        self._image = create("digits").split("test").batch(torch.tensor([0]))[0]
        self._server = self._start()
        self._expected = self._server.infer(self._image)["class"]

    def _start(self) -> ServerProcess:
        return ServerProcess(self.run, "--radius", "0.1", "--evidence", str(self.evidence), "--keep-pictures")

    def phase(self, requests: int, reloads: int = 0) -> None:
        """Send requests from several clients at once, with slow ones beside them."""
        self._phases += 1
        ended = threading.Event()
        slow = threading.Thread(target=self._slow, args=(ended,))
        slow.start()
        clients = [
            threading.Thread(target=self._client, args=(requests // CLIENTS, f"{self.seed} {self._phases} {number}"))
            for number in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for _ in range(reloads):
            time.sleep(1)
            self._server.process.send_signal(signal.SIGHUP)
        for client in clients:
            client.join()
        ended.set()
        slow.join()
        if self._server.process.poll() is not None:
            self.bad["servers that ended"].append(f"with exit code {self._server.process.returncode}")

    def _client(self, requests: int, seed: str) -> None:
        rng, content = random.Random(seed), io.BytesIO()
        Image.fromarray((self._image[0] * 255).round().byte().numpy()).save(content, "PNG")
        good = tensor(self._image)
        connection = http.client.HTTPConnection(*self._server.place, timeout=60)
        for number in range(requests):
            if number % 20 == 0:
                self._good()
            if number % 10 == 0:
                self._raw(damaged_bytes(rng, b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"))
                continue
            request = damaged(rng, good, content.getvalue(), "run")
            headers = {name.decode(): value for name, value in request.headers.items()}
            try:
                connection.request(request.method, request.path, request.content, headers)
                answer = connection.getresponse()
                self._judge(request, answer.status, answer.read())
            except (OSError, http.client.HTTPException):
                connection.close()  # the server may end a connection whose request it cannot read
            self.sent += 1
        connection.close()

    def _good(self) -> None:
        try:
            answer = self._server.infer(self._image)
        except (OSError, ValueError) as error:
            self.bad["wrong statuses"].append(f"a good request: {error}")
            return
        self.seen.append(answer)
        if answer["class"] not in (self._expected, None):
            self.bad["wrong answers"].append(f"{answer['class']}, expected {self._expected}")

    def _raw(self, content: bytes) -> None:
        """Send bytes that are hardly HTTP."""
        with suppress(OSError), socket.create_connection(self._server.place, timeout=10) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(1 << 16)
            if b"Traceback" in answer:
                self.bad["tracebacks"].append(repr(content))
        self.sent += 1

    def _judge(self, request: Any, status: int, body: bytes) -> None:
        if b"Traceback" in body or b'File "' in body:
            self.bad["tracebacks"].append(repr(request)[:200])
        if status not in STATUSES | {BUSY}:
            self.bad["wrong statuses"].append(f"{status}: {request!r}"[:300])

    def _slow(self, ended: threading.Event) -> None:
        """Hold connections that send a byte now and then."""
        connections = [socket.create_connection(self._server.place, timeout=10) for _ in range(SLOW)]
        content = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + bytes(1000)
        for at in range(len(content)):
            if ended.wait(0.2):
                break
            for connection in connections:
                with suppress(OSError):
                    connection.sendall(content[at : at + 1])
        for connection in connections:
            connection.close()

    def kill(self) -> None:
        """Kill the server while clients wait, and start another one."""
        clients = [threading.Thread(target=self._until_killed) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        self._server.stop(signal.SIGKILL)
        for client in clients:
            client.join()
        self._server = self._start()

    def _until_killed(self) -> None:
        with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
            while True:
                self.seen.append(self._server.infer(self._image))

    def second_server(self) -> None:
        """Start another server on the same evidence: it must refuse."""
        try:
            serve(ServerConfig(model=ModelConfig(run=self.run), port=0, evidence=self.evidence), lambda *_: None)
        except LockedError:
            return
        self.bad["broken chains"].append("a second server wrote to the evidence")

    def finish(self) -> None:
        """Stop the server, and check the evidence."""
        code = self._server.stop()
        if code:
            self.bad["servers that ended"].append(f"with exit code {code} after SIGTERM")
        recorded = {entry.digest for entry in read_log(self.evidence)}
        lost = [answer["id"] for answer in self.seen if answer["digests"]["evidence"] not in recorded]
        self.bad["lost answers"] += lost
        result = verify_evidence(self.evidence, self.run, rows=REPLAYED)
        self.bad["broken chains"] += [*result.differences, *result.unchecked]
        self.replayed = result.replayed

"""A server in a process of its own: clients that nobody here wrote, signals, kills, and slow clients."""

import asyncio
import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import torch
import uvicorn
from starlette.responses import PlainTextResponse

from radii.datasets import create
from radii.disk import LockedError
from radii.serving.evidence import EvidenceLog, log_file, read_log
from radii.serving.model import Mode, ModelConfig, load_model
from radii.serving.server import ServerConfig, _Protocol, _Server, read_tokens, serve
from tools.server_process import ServerProcess

TOKEN = "a-token-of-sixteen-characters"


def digits(count: int) -> torch.Tensor:
    return create("digits").split("test").batch(torch.arange(count))


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    (tmp_path / "tokens").write_text(f"# of mine\n{TOKEN}\n")
    return ["--evidence", str(tmp_path / "evidence"), "--token-file", str(tmp_path / "tokens"), "--radius", "0.1"]


@pytest.fixture
def run(trained_digits: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_digits, tmp_path / "run"))


@pytest.fixture
def server(run: Path, options: list[str]) -> Iterator[ServerProcess]:
    running = ServerProcess(run, *options, token=TOKEN)
    yield running
    if running.process.poll() is None:
        running.stop(signal.SIGKILL)


@pytest.mark.slow
def test_tritons_client_gets_answers(server: ServerProcess) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(server.address)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert client.is_server_live()
    assert client.is_model_ready("run", headers=headers)
    assert client.get_model_metadata("run", headers=headers)["inputs"][0]["shape"] == [-1, 1, 8, 8]
    images = digits(3).numpy()
    for binary in (True, False):
        asked = triton.InferInput("image", list(images.shape), "FP32")
        asked.set_data_from_numpy(images, binary_data=binary)
        response = client.infer("run", [asked], request_id="7", headers=dict(headers))  # the client adds to them
        assert response.get_response()["id"] == "7"
        assert response.as_numpy("label").shape == (3,)
        assert response.as_numpy("votes").sum(1).min() >= 64
        assert set(response.as_numpy("radius")) <= {0.1, -1.0}
    outputs = [triton.InferRequestedOutput("class", binary_data=True)]
    names = client.infer("run", [asked], outputs=outputs, headers=dict(headers)).as_numpy("class")
    assert set(names) <= {str(label).encode() for label in range(10)} | {b""}
    with pytest.raises(triton.InferenceServerException, match="no model"):
        client.infer("other", [asked], headers=dict(headers))
    client.close()
    assert server.stop() == 0


@pytest.mark.slow
def test_seen_answers_survive_a_kill_and_questions_are_counted_on(
    server: ServerProcess, run: Path, options: list[str], tmp_path: Path
) -> None:
    images = digits(40)
    seen: list[dict[str, Any]] = []
    with pytest.raises(HTTPError, match="401"):
        server.ask(b"{}", "/v2/models/run/infer", "wrong")

    def ask(numbers: range) -> None:
        try:
            for number in numbers:
                seen.append(server.infer(images[number % 40]))
        except OSError:
            pass  # the kill

    askers = [threading.Thread(target=ask, args=(range(start, 10_000, 4),)) for start in range(4)]
    for asker in askers:
        asker.start()
    while len(seen) < 60:
        time.sleep(0.01)
    server.stop(signal.SIGKILL)
    for asker in askers:
        asker.join()
    lines = list(read_log(tmp_path / "evidence"))
    recorded = {line.digest: line.record for line in lines}
    for answer in seen:
        record = recorded[answer["digests"]["evidence"]]
        assert (record["id"], record["radius"]) == (answer["id"], answer["radius"] or 0.0)
    with log_file(tmp_path / "evidence").open("ab") as log:
        log.write(b'{"previous":"torn')
    again = ServerProcess(run, *options, token=TOKEN)
    repeated = again.infer(images[0])
    before = [answer["asked"] for answer in seen if answer["digests"]["picture"] == repeated["digests"]["picture"]]
    assert repeated["asked"] > max(before)
    other = ServerConfig(model=ModelConfig(run=run), port=0, evidence=tmp_path / "evidence")
    with pytest.raises(LockedError, match=f"is being written by process {again.process.pid}"):
        serve(other, lambda *_: None)
    assert again.stop() == 0
    assert len(list(read_log(tmp_path / "evidence"))) == len(lines) + 3
    assert any('"repaired"' in line for line in again.log)


@pytest.mark.slow
def test_reload_under_load_loses_no_request(server: ServerProcess, run: Path, tmp_path: Path) -> None:
    images, answers, errors = digits(20), list[dict[str, Any]](), list[Exception]()
    old = server.infer(images[0])["digests"]["weights"]
    stop = threading.Event()

    def ask(start: int) -> None:
        number = start
        while not stop.is_set():
            try:
                answers.append(server.infer(images[number % 20]))
            except Exception as error:
                errors.append(error)
            number += 1

    askers = [threading.Thread(target=ask, args=(start,)) for start in range(3)]
    for asker in askers:
        asker.start()
    # A slow client holds up nobody.
    with socket.create_connection(server.place) as slow:
        slow.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        weights = run / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(bytes(content[:-400] + bytes(400)))
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 120
        while not any(answer["digests"]["weights"] != old for answer in list(answers)):
            assert time.monotonic() < deadline, server.log
            time.sleep(0.05)
        weights.write_bytes(b"damaged")  # a reload that fails changes nothing
        server.process.send_signal(signal.SIGHUP)
        while not any("reload failed" in line for line in list(server.log)):
            assert time.monotonic() < deadline, server.log
            time.sleep(0.05)
        stop.set()
        for asker in askers:
            asker.join()
    assert errors == []
    assert server.infer(images[0])["digests"]["weights"] != old
    assert server.stop() == 0
    EvidenceLog(tmp_path / "evidence").close()
    events = [json.loads(line) for line in server.log]
    assert {"request", "reloaded"} <= {event["event"] for event in events}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"port": 70_000}, "at most 65535"),
        ({"queue": 0}, "queue = 0"),
        ({"deadline": 0.0}, "deadline = 0 s"),
        ({"keep_pictures": True}, "Name a folder"),
    ],
)
def test_wrong_options_of_a_server_are_refused(fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        ServerConfig(model=ModelConfig(run=tmp_path), **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mode": "fast"}, "expected one of certificate, vote, one-pass"),
        ({"mode": "vote", "radii": (0.1,)}, "certifies no radius"),
        ({"mode": "one-pass", "fields": {"failure": 0.1}}, "no certifier"),
    ],
)
def test_wrong_options_of_a_model_are_refused(fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        ModelConfig(run=tmp_path, **fields)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no token"),
        (b"# none\n\n", "no token"),
        (b"short\n", "shorter than 16"),
        (b"\xff" * 20, "not a text file"),
    ],
)
def test_wrong_token_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "tokens").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_tokens(tmp_path / "tokens")


@pytest.mark.parametrize(("mode", "copies"), [("certificate", 128), ("vote", 128), ("one-pass", 16)])
def test_passes_are_small_where_a_request_has_one_copy(trained_digits: Path, mode: Mode, copies: int) -> None:
    model = load_model(ModelConfig(run=trained_digits, mode=mode, engine="torch"))
    assert model.classifier.batch_size == model.header["batch_size"] == copies


def test_connection_lives_between_requests_and_ends_in_a_slow_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.serving.server.HEAD_SECONDS", 0.2)
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n"

    async def answers(reader: asyncio.StreamReader) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        return head.startswith(b"HTTP/1.1 200") and await reader.readexactly(2) == b"ok"

    async def check() -> None:
        app = PlainTextResponse("ok")
        server = _Server(uvicorn.Config(app, http=_Protocol, log_config=None, lifespan="off"))
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            task = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started:
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            for _ in range(4):  # for longer than a head may take
                writer.write(request + b"\r\n")
                assert await answers(reader)
                await asyncio.sleep(0.1)
            writer.write(request)
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
            server.should_exit = True
            await task

    asyncio.run(check())

"""The HTTP interface, in this process: answers, errors, tokens, metrics, and requests that are damaged."""

import io
import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient

from radii.datasets import create
from radii.serving import oip
from radii.serving.decoder import Decoder
from radii.serving.model import ServedModel
from radii.serving.routes import Api
from tests.serving.conftest import MakeModel, MakeService, Slow, at_distance, client_of
from tools.damaged_requests import STATUSES, damaged


@pytest.fixture(scope="module")
def client(api: Api) -> Iterator[TestClient]:
    with client_of(api, raise_server_exceptions=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def digit() -> torch.Tensor:
    return create("digits").split("test").batch(torch.tensor([0]))[0]


def png(pixels: np.ndarray[Any, Any], form: str = "PNG") -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, form)
    return content.getvalue()


def infer(name: str = "digits") -> str:
    return f"/v2/models/{name}/infer"


def body(*images: torch.Tensor, **more: object) -> dict[str, Any]:
    batch = torch.stack(images)
    stated = {"name": "image", "datatype": "FP32", "shape": list(batch.shape), "data": batch.flatten().tolist()}
    return {"inputs": [stated], **more}


def test_health_and_metadata(client: TestClient, digits_model: ServedModel) -> None:
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").status_code == 200
    assert client.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    described = client.get("/v2/models/digits").json()
    assert described["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
    assert described["versions"] == [digits_model.weights[:12]]
    assert client.get(f"/v2/models/digits/versions/{described['versions'][0]}/ready").status_code == 200
    for path in ("/v2/models/other", "/v2/models/digits/versions/1", "/v2/models/other/ready", "/nothing"):
        assert client.get(path).status_code == 404
        assert "error" in client.get(path).json()


def test_tensors_get_answers(client: TestClient, digit: torch.Tensor) -> None:
    response = client.post(infer(), json=body(digit, digit, id="mine")).json()
    assert (response["id"], response["model_name"]) == ("mine", "digits")
    outputs = {output["name"]: output for output in response["outputs"]}
    assert outputs["votes"]["shape"] == [2, 10]
    whole = json.loads(outputs["answer"]["data"][1])
    assert whole["asked"] == 2
    assert outputs["failure"]["data"] == [0.0005, 0.000125]
    assert outputs["label"]["data"] == [0, 0]
    assert outputs["radius"]["data"] == [0.1, 0.1]
    assert {"picture", "weights", "header", "sealed_seed", "evidence"} == set(whole["digests"])


def test_pictures_get_answers(client: TestClient, digit: torch.Tensor) -> None:
    pixels = (digit[0] * 255).round().byte().numpy()
    for content in (png(pixels), png(np.repeat(pixels[..., None], 3, 2))):
        response = client.post("/predict", content=content)
        assert response.status_code == 200
        assert (response.json()["class"], response.json()["radius"]) == ("0", 0.1)
        assert "l2 distance 0.1000" in response.json()["promise"]


def test_abstentions_have_no_class_and_no_radius(make_service: MakeService, make_model: MakeModel) -> None:
    api = Api(make_service(make_model("vote"), deadline=1e-9))
    with client_of(api) as client:
        image = torch.full((1, 2, 2), 0.5)
        outputs = client.post(infer("plane"), json=body(image)).json()["outputs"]
        values = {output["name"]: output["data"][0] for output in outputs}
        assert (values["label"], values["class"], values["radius"], values["abstained"]) == (-1, "", -1.0, True)
        whole = json.loads(values["answer"])
        assert (whole["class"], whole["label"], whole["radius"], whole["stopped_at_deadline"]) == (
            None,
            None,
            None,
            True,
        )
        assert 'outcome="deadline"} 1' in client.get("/metrics").text


def test_events_show_copies_votes_and_the_answer(client: TestClient, digit: torch.Tensor) -> None:
    content = png((digit[0] * 255).round().byte().numpy())
    text = client.post("/predict", content=content, headers={"accept": "text/event-stream"}).text
    events = [dict(line.split(": ", 1) for line in event.splitlines()) for event in text.strip().split("\n\n")]
    kinds = [event["event"] for event in events]
    assert kinds[:2] == ["picture", "copies"]
    assert kinds[-1] == "answer"
    assert set(kinds[2:-1]) == {"votes"}
    copies = json.loads(events[1]["data"])
    assert len(copies) == 12
    assert all(copy["picture"].startswith("data:image/png;base64,") for copy in copies)
    assert sum(copy["class"] == "0" for copy in copies) > 6
    samples = sum(json.loads(event["data"])["samples"] for event in events[2:-1])
    assert samples == json.loads(events[-1]["data"])["samples"]


@pytest.mark.parametrize(
    ("content", "headers", "status", "words"),
    [
        (b"", {}, 400, "empty"),
        (b"no picture", {}, 400, "not a picture"),
        (png(np.zeros((9, 8), np.uint8)), {}, 400, "The picture is 8 x 9 pixels, the model takes 8 x 8"),
        (png(np.random.default_rng(0).integers(0, 255, (8, 8), np.uint8))[:-30], {}, 400, "annot read the picture"),
        (b"x", {"content-type": "multipart/form-data; boundary=x"}, 415, "data-binary"),
        (b"x", {"content-encoding": "gzip"}, 415, "Compressed"),
        (bytes(17 << 20), {}, 413, "too long"),
    ],
    ids=["empty", "text", "size", "torn", "form", "compressed", "long"],
)
def test_wrong_pictures_are_refused_in_words(
    client: TestClient, content: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    response = client.post("/predict", content=content, headers=headers)
    assert response.status_code == status
    assert words in response.json()["error"]
    assert "/" not in response.json()["error"].replace("8 x 8", "")


def test_body_without_a_length_is_limited_too(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield bytes(1 << 20)

    assert client.post("/predict", content=chunks()).status_code == 413


def test_many_pixels_are_refused_before_they_are_decoded(client: TestClient) -> None:
    bomb = png(np.zeros((1, 1), np.uint8))
    wide = bomb[:16] + (60_000).to_bytes(4, "big") * 2 + bomb[24:]
    response = client.post("/predict", content=wide)
    assert response.status_code == 400


def all_ready(api: Api) -> list[Decoder]:
    """Wait until every decoder is ready, and return them."""
    assert api.decoders is not None
    until = time.monotonic() + 60
    while not all(decoder.ready for decoder in api.decoders.all):
        assert time.monotonic() < until
        time.sleep(0.05)
    return api.decoders.all


def test_decoder_that_dies_costs_one_answer(client: TestClient, api: Api, digit: torch.Tensor) -> None:
    content = png((digit[0] * 255).round().byte().numpy())
    decoder = all_ready(api)[-1]
    assert decoder.process is not None
    decoder.process.send_signal(signal.SIGSTOP)  # as if it were stuck
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("radii.serving.decoder.SECONDS", 2.0)
        responses = [client.post("/predict", content=content) for _ in range(2)]  # one for each decoder
    assert sorted(response.status_code for response in responses) == [200, 400]
    assert "took too long" in max(responses, key=lambda response: response.status_code).json()["error"]
    all_ready(api)
    decoder.process.kill()
    statuses = [client.post("/predict", content=content).status_code for _ in range(3)]
    assert statuses[-1] == 200
    assert statuses.count(400) <= 1


def test_no_picture_waits_for_a_decoder_that_starts_while_another_is_ready(
    client: TestClient, api: Api, digit: torch.Tensor
) -> None:
    content = png((digit[0] * 255).round().byte().numpy())
    first, second = all_ready(api)
    assert first.process is not None
    first.process.kill()
    started = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first, "wait", lambda: started.wait(60))  # its next process starts slowly
        try:
            statuses = [client.post("/predict", content=content).status_code for _ in range(4)]
            assert sorted(statuses) == [200, 200, 200, 400]
            assert not first.ready
            assert second.ready
        finally:
            started.set()


def test_picture_that_is_not_decoded_by_the_deadline_is_503(
    make_service: MakeService, make_model: MakeModel, digit: torch.Tensor
) -> None:
    with client_of(Api(make_service(make_model(), deadline=0.001))) as client:  # its decoders start
        response = client.post("/predict", content=png((digit[0] * 255).round().byte().numpy()))
    assert response.status_code == 503
    assert "by the deadline" in response.json()["error"]
    assert int(response.headers["retry-after"]) >= 1


def test_bodies_in_flight_are_limited_together(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.serving.guard.MOST_HELD", 1 << 20)
    for _ in range(3):  # what was refused is not held
        response = client.post("/predict", content=bytes(2 << 20))
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
    assert client.post("/predict", content=bytes(1 << 19)).status_code == 400


def test_two_lengths_of_a_body_are_refused(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"hello"

    response = client.post(
        "/predict", content=chunks(), headers={"content-length": "5", "transfer-encoding": "chunked"}
    )
    assert response.status_code == 400
    assert response.headers["connection"] == "close"
    assert "contradict" in response.json()["error"]


def test_full_queue_is_503_with_retry_after(make_service: MakeService, make_model: MakeModel) -> None:
    slow = Slow()
    service = make_service(make_model("vote", base=slow), queue_limit=1)
    with client_of(Api(service)) as client:
        assert client.post(infer("plane"), json=body(at_distance(0.5), at_distance(0.4))).status_code == 413
        slow.gate.clear()
        waiting = service.submit([at_distance(0.5)])
        response = client.post(infer("plane"), json=body(at_distance(0.5)))
        slow.gate.set()
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert "queue is full" in response.json()["error"]
        waiting[0].result(60)
        assert client.post(infer("plane"), json=body(at_distance(0.5))).status_code == 200


def test_tokens_open_everything_but_the_page_and_health(api: Api, digit: torch.Tensor) -> None:
    guarded = Api(api.service, ["0123456789abcdef", "another-token-of-mine"])
    with client_of(guarded) as client:
        for path in ("/v2", "/v2/models/digits", "/metrics", "/nothing"):
            refused = client.get(path)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        wrong = ("Bearer 0123456789abcdeX", "Basic 0123456789abcdef", "Bearer", "Bearer ", "0123456789abcdef")
        for authorization in wrong:
            assert client.post("/predict", headers={"authorization": authorization}).status_code == 401
        assert client.get("/v2/health/live").status_code == client.get("/").status_code == 200
        for token in guarded.tokens:
            headers = {"authorization": f"bearer {token}"}
            assert client.post(infer(), json=body(digit), headers=headers).status_code == 200


def test_metrics_are_in_the_text_format(client: TestClient, digit: torch.Tensor) -> None:
    client.post(infer(), json=body(digit))
    text = client.get("/metrics").text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(float(line.rpartition(" ")[2]) >= 0 for line in lines)
    numbers = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    assert numbers["radii_answer_seconds_count"] == numbers['radii_answer_seconds_bucket{le="+Inf"}'] > 0
    assert numbers["radii_samples_total"] <= numbers["radii_rows_total"] <= 128 * numbers["radii_passes_total"]
    assert numbers["radii_in_flight"] == 0


def test_errors_of_the_server_show_no_traceback(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret /path/to/a/file")

    monkeypatch.setattr(oip, "server_metadata", broken)
    response = client.get("/v2")
    assert response.status_code == 500
    assert response.json() == {"error": "The server failed. Its log says why."}


def test_responses_carry_no_server_path_and_safe_headers(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    for path in ("/", "/v2", "/v2/models/digits", "/metrics"):
        assert "/tmp" not in client.get(path).text


@pytest.mark.stress
def test_damaged_requests_are_refused_or_answered_rightly(client: TestClient, digit: torch.Tensor) -> None:
    """Every status is one that a client can act on, and no answer is of another class."""
    rng = random.Random(0)
    picture = png((digit[0] * 255).round().byte().numpy())
    good = json.dumps(body(digit)).encode()
    for request in (damaged(rng, good, picture, "digits") for _ in range(600)):
        response = client.request(request.method, request.path, content=request.content, headers=request.headers)
        assert response.status_code in STATUSES, (request, response.text)
        assert "Traceback" not in response.text
        if response.status_code >= 400 and request.method != "HEAD":
            assert set(response.json()) == {"error"}
    assert client.post(infer(), json=body(digit)).status_code == 200

"""Requests of the Open Inference Protocol: what is read, and what is refused."""

import json

import numpy as np
import pytest

from radii.serving import oip
from tests.serving.conftest import MakeModel


def request(data: object = None, shape: object = (1, 1, 2, 2), kind: object = "FP32", **more: object) -> bytes:
    tensor = {"name": "image", "datatype": kind, "shape": shape, "data": [0.5] * 4 if data is None else data}
    return json.dumps({"inputs": [tensor], **more}).encode()


def test_tensors_are_read_flat_nested_and_as_bytes(make_model: MakeModel) -> None:
    model, pixels = make_model(), np.array([[[[0.0, 0.25], [0.5, 1.0]]]], np.float32)
    flat = oip.parse_infer(request(pixels.ravel().tolist()), None, model)
    nested = oip.parse_infer(request(pixels.tolist()), None, model)
    one = oip.parse_infer(request(pixels[0].tolist(), (1, 2, 2)), None, model)
    stated = {"name": "image", "datatype": "FP32", "shape": [1, 1, 2, 2], "parameters": {"binary_data_size": 16}}
    head = json.dumps({"inputs": [stated], "parameters": {"binary_data_output": True}}).encode()
    binary = oip.parse_infer(head + pixels.tobytes(), str(len(head)), model)
    for parsed in (flat, nested, one, binary):
        np.testing.assert_array_equal(parsed.images, pixels)
    assert (flat.binary, binary.binary) == (frozenset(), None)
    whole = oip.parse_infer(request([0, 51, 102, 255], kind="UINT8"), None, model)
    np.testing.assert_allclose(whole.images.ravel(), [0, 0.2, 0.4, 1])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "JSON object"),
        (b"{}", "needs one input"),
        (request(shape=(1, 4, 1)), "images are"),
        (request(shape=(1, 3, 2, 2)), "the shape asks for 12"),
        (request(shape=(1, 1, 2, -2)), "whole numbers above 0"),
        (request(shape=(1, 1, 2, True)), "whole numbers above 0"),
        (request(shape=None), "whole numbers above 0"),
        (request(shape=[1 << 60] * 4), "whole numbers above 0"),
        (request(kind="BYTES"), "datatype is 'BYTES'"),
        (request(kind=["FP32"]), "datatype is"),
        (request("abcd"), "neither"),
        (request(["a"] * 4), "must be numbers"),
        (request([[1], [1, 2]]), "must be numbers"),
        (request([0.5] * 5), "5 numbers"),
        (request([0.5, 0.5, 0.5, 2.0]), "finite numbers in"),
        (request([0.5, 0.5, 0.5, None]), "finite numbers in"),
        (request().replace(b"0.5, 0.5", b"NaN, 0.5"), "finite numbers in"),
        (request([0, 0, 0, 256], kind="UINT8"), "from 0 to 255"),
        (request([0.5] * 4 * 129, shape=(129, 1, 2, 2)), "at most 128"),
        (request(id=7), "id of a request"),
        (request(outputs=[{"name": "nothing"}]), "no output 'nothing'"),
        (request(outputs=[{"name": "label"}, {"name": "label"}]), "twice"),
        (request(outputs={"name": "label"}), "'outputs' a list"),
        (request() + b"x", "not JSON"),
    ],
)
def test_wrong_requests_are_refused_in_words(make_model: MakeModel, body: bytes, words: str) -> None:
    with pytest.raises(oip.ProtocolError, match=words):
        oip.parse_infer(body, None, make_model())


@pytest.mark.parametrize("length", ["-1", "99999", "x", "", "٣"])
def test_wrong_lengths_of_the_header_are_refused(make_model: MakeModel, length: str) -> None:
    with pytest.raises(oip.ProtocolError):
        oip.parse_infer(request(), length, make_model())


@pytest.mark.parametrize("size", [0, 15, 17, 1 << 70, -16, 16.0, "16", True])
def test_wrong_sizes_of_bytes_are_refused(make_model: MakeModel, size: object) -> None:
    stated = {"name": "image", "datatype": "FP32", "shape": [1, 1, 2, 2], "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [stated]}).encode()
    with pytest.raises(oip.ProtocolError, match="binary_data_size"):
        oip.parse_infer(head + bytes(16), str(len(head)), make_model())

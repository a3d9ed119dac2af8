"""The Open Inference Protocol, version 2, over HTTP: tensors are JSON, or bytes after it (binary data extension)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from radii.serving.answer import Answer
    from radii.serving.model import ServedModel

INPUT = "image"
HEADER_LENGTH = "inference-header-content-length"
"""The HTTP header with the length of the JSON, if the bytes of tensors follow it."""
MOST_IMAGES = 128
"""Images of one request."""
INPUT_TYPES = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "UINT8": "u1"}
"""The types of an input and numpy's names for them; UINT8 is divided by 255."""
OUTPUT_TYPES = {"INT64": "<i8", "FP64": "<f8", "BOOL": "?"}


class ProtocolError(ValueError):
    """The request does not follow the protocol; the message says what is wrong."""


@dataclass(frozen=True)
class InferRequest:
    """A request for answers about images."""

    images: NDArray[np.float32]
    """[image, channel, height, width]"""
    id: str | None
    outputs: tuple[str, ...]
    """The outputs that are asked for; empty for all."""
    binary: frozenset[str] | None
    """The outputs to send as bytes; None for all."""


def server_metadata() -> dict[str, Any]:
    return {"name": "radii", "version": metadata.version("radii"), "extensions": ["binary_tensor_data"]}


def model_metadata(model: "ServedModel") -> dict[str, Any]:
    """Describe the inputs and outputs of a model."""
    return {
        "name": model.name,
        "versions": [version_of(model)],
        "platform": f"radii_{model.header['engine']}",
        "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, *model.shape]}],
        "outputs": [{"name": name, "datatype": kind, "shape": shape} for name, kind, shape in _outputs(model)],
        "parameters": {key: model.header[key] for key in ("mode", "procedure", "norm", "prepared")},
    }


def version_of(model: "ServedModel") -> str:
    """Return the version of a model: the beginning of the digest of its weights."""
    return model.weights[:12]


def _outputs(model: "ServedModel") -> list[tuple[str, str, list[int]]]:
    classes = len(model.class_names)
    return [
        ("label", "INT64", [-1]),
        ("class", "BYTES", [-1]),
        ("radius", "FP64", [-1]),
        ("abstained", "BOOL", [-1]),
        ("votes", "INT64", [-1, classes]),
        ("samples", "INT64", [-1]),
        ("failure", "FP64", [-1]),
        ("answer", "BYTES", [-1]),
    ]


def parse_infer(body: bytes, header_length: str | None, model: "ServedModel") -> InferRequest:
    """Read a request; raise a ProtocolError if it is wrong."""
    request, rest = _split(body, header_length)
    inputs = request.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise ProtocolError(f"The request needs one input, {INPUT!r}. Ask the model's metadata for its shape.")
    pixels, used = _tensor(inputs[0], rest)
    if used != len(rest):
        raise ProtocolError(f"{len(rest)} bytes follow the JSON, but the input states {used} as binary_data_size.")
    identifier = request.get("id")
    if identifier is not None and not isinstance(identifier, str):
        raise ProtocolError("The id of a request must be a string.")
    outputs, binary = _requested_outputs(request, {name for name, _, _ in _outputs(model)})
    return InferRequest(_images(pixels, model.shape), identifier, outputs, binary)


def _split(body: bytes, header_length: str | None) -> tuple[dict[str, Any], memoryview]:
    """Return the JSON object of a body and the bytes after it."""
    length = len(body)
    if header_length is not None:
        if not header_length.isascii() or not header_length.isdecimal() or int(header_length) > len(body):
            raise ProtocolError(f"Inference-Header-Content-Length does not fit a body of {len(body)} bytes.")
        length = int(header_length)
    try:
        request = json.loads(body[:length])
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            "The body is not JSON. Send an inference request of the Open Inference Protocol."
        ) from error
    if not isinstance(request, dict):
        raise ProtocolError("The body must be a JSON object with 'inputs'.")
    return request, memoryview(body)[length:]


def _tensor(table: Mapping[str, Any], rest: memoryview) -> tuple[NDArray[Any], int]:
    """Return the numbers of an input, and how many of the bytes after the JSON they take."""
    name, kind, shape = table.get("name"), table.get("datatype"), table.get("shape")
    if name != INPUT:
        raise ProtocolError(f"The input is called {str(name)[:50]!r}, expected {INPUT!r}.")
    if not isinstance(kind, str) or kind not in INPUT_TYPES:
        raise ProtocolError(f"The datatype is {str(kind)[:50]!r}, expected one of {', '.join(INPUT_TYPES)}.")
    if not isinstance(shape, list) or not all(type(side) is int and 0 < side < 1 << 20 for side in shape):
        raise ProtocolError("The shape must be a list of whole numbers above 0.")
    if not 3 <= len(shape) <= 4:
        raise ProtocolError(f"The shape has {len(shape)} dimensions, expected [image, channel, height, width].")
    dtype, parameters = np.dtype(INPUT_TYPES[kind]), table.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        return _from_json(table.get("data"), shape, dtype), 0
    if type(size) is not int or size != math.prod(shape) * dtype.itemsize or size > len(rest):
        raise ProtocolError(f"binary_data_size is {str(size)[:50]}, which does not fit the shape or the body.")
    return np.frombuffer(rest[:size], dtype).reshape(shape), size


def _from_json(data: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    if not isinstance(data, list):
        raise ProtocolError("The input has neither 'data' nor a binary_data_size.")
    try:
        numbers = np.asarray(data, dtype=np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ProtocolError("The data must be numbers, flat or nested as the shape says.") from error
    if numbers.size != math.prod(shape) or (numbers.ndim > 1 and list(numbers.shape) != list(shape)):
        raise ProtocolError(f"The data are {numbers.size} numbers, the shape asks for {math.prod(shape)}.")
    if dtype.kind == "u" and not (np.isfinite(numbers) & (numbers >= 0) & (numbers <= 255)).all():
        raise ProtocolError("UINT8 data must be from 0 to 255.")
    return numbers.reshape(shape).astype(dtype)


def _images(tensor: NDArray[Any], shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Return images with pixels in [0, 1] of the model's shape."""
    batch = tensor[None] if tensor.ndim == 3 else tensor
    if batch.shape[1:] != shape:
        raise ProtocolError(f"The images are {list(batch.shape[1:])}, the model takes {list(shape)}.")
    if len(batch) > MOST_IMAGES:
        raise ProtocolError(f"The request has {len(batch)} images, at most {MOST_IMAGES} are taken at once.")
    pixels = batch.astype(np.float32) / np.float32(255) if batch.dtype.kind == "u" else batch.astype(np.float32)
    if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
        raise ProtocolError("Pixels must be finite numbers in [0, 1]. Divide bytes by 255, or send UINT8.")
    return pixels


def _requested_outputs(request: Mapping[str, Any], known: set[str]) -> tuple[tuple[str, ...], frozenset[str] | None]:
    """Return the outputs that are asked for, and those to send as bytes (None for all)."""
    parameters, outputs = request.get("parameters", {}), request.get("outputs", [])
    if not isinstance(parameters, dict) or not isinstance(outputs, list):
        raise ProtocolError("'parameters' must be an object and 'outputs' a list.")
    all_binary = parameters.get("binary_data_output") is True
    names, binary = [], set()
    for output in outputs:
        name = output.get("name") if isinstance(output, dict) else None
        if not isinstance(name, str) or name not in known:
            raise ProtocolError(f"There is no output {str(name)[:50]!r}. There are {', '.join(sorted(known))}.")
        if name in names:
            raise ProtocolError(f"The output {name!r} is asked for twice.")
        names.append(name)
        own = output.get("parameters")
        if (own.get("binary_data", all_binary) if isinstance(own, dict) else all_binary) is True:
            binary.add(name)
    return tuple(names), frozenset(binary) if outputs else None if all_binary else frozenset()


def infer_response(
    request: InferRequest, model: "ServedModel", answers: Sequence["Answer"]
) -> tuple[bytes, dict[str, str]]:
    """Return the body of the response to a request, and its headers."""
    header: dict[str, Any] = {"model_name": model.name, "model_version": version_of(model), "outputs": []}
    if request.id is not None:
        header["id"] = request.id
    header["parameters"] = {
        "engine": model.header["engine"],
        "weights": model.weights,
        "header": model.header_digest,
        "mode": model.mode,
    }
    rows = [_values(answer) for answer in answers]
    tail = []
    for name, kind, shape in _outputs(model):
        if request.outputs and name not in request.outputs:
            continue
        values = [row[name] for row in rows]
        output: dict[str, Any] = {"name": name, "datatype": kind, "shape": [len(answers), *shape[1:]]}
        if request.binary is None or name in request.binary:
            content = _as_bytes(kind, values)
            output["parameters"] = {"binary_data_size": len(content)}
            tail.append(content)
        else:
            output["data"] = np.asarray(values).ravel().tolist() if kind != "BYTES" else values
        header["outputs"].append(output)
    body = json.dumps(header).encode()
    if not tail:
        return body, {"content-type": "application/json"}
    headers = {"content-type": "application/octet-stream", HEADER_LENGTH: str(len(body))}
    return body + b"".join(tail), headers


def _values(answer: "Answer") -> dict[str, Any]:
    """Return all outputs about one image. Radius and failure are -1 if there is none: JSON has no NaN."""
    certificate = answer.certificate
    return {
        "label": certificate.prediction,
        "class": answer.class_name or "",
        "radius": -1.0 if answer.radius is None else answer.radius,
        "abstained": answer.abstained,
        "votes": list(certificate.counts) or [0] * len(answer.model.class_names),
        "samples": certificate.samples,
        "failure": -1.0 if answer.failure is None else answer.failure,
        "answer": json.dumps(answer.as_data()),
    }


def _as_bytes(kind: str, values: Sequence[Any]) -> bytes:
    if kind != "BYTES":
        return np.asarray(values, dtype=OUTPUT_TYPES[kind]).tobytes()
    encoded = [value.encode() for value in values]
    return b"".join(len(value).to_bytes(4, "little") + value for value in encoded)

"""Requests to a server that are damaged at random: bytes, headers, pictures, JSON and paths."""

import json
import random
from typing import Any, NamedTuple

STATUSES = {200, 400, 401, 404, 405, 413, 415}
"""What a server may answer to a damaged request when it is not busy."""
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 1 << 70, 1e308, float("nan"), "", "x" * 300, "image", "FP64", [], {}, [[[]]]),
    *([1, 1, 8, 8], [0], [-1], [1 << 40] * 4, {"binary_data_size": 256}, {"binary_data": True}, "\ud800"),
)
HEADERS = (
    *("inference-header-content-length", "content-type", "content-encoding", "accept", "authorization"),
    *("x-forwarded-for", "range", "if-match", "te"),
)
HEADER_VALUES = (
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "gzip",
    "text/event-stream",
    "multipart/form-data",
    "",
    "é",
    "a" * 4000,
)
PATHS = (
    "/v2",
    "/v2/models/%00/infer",
    "/v2/models/../../etc/passwd",
    "//",
    "/predict/",
    "/v2/models//infer",
    "/metrics?x=1",
)


class DamagedRequest(NamedTuple):
    """A request as a client sends it."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    content: bytes


def damaged(rng: random.Random, good: bytes, picture: bytes, model: str) -> DamagedRequest:
    """Damage a good request for tensors, or one with a picture, once or several times."""
    of_tensors = rng.random() < 0.6
    path = f"/v2/models/{model}/infer" if of_tensors else "/predict"
    content = good if of_tensors else picture
    method, headers = "POST", dict[bytes, bytes]()
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.randrange(10)
        if kind < 4:
            content = damaged_bytes(rng, content)
        elif kind < 7 and of_tensors:
            content = damaged_json(rng, content)
        elif kind < 9:
            headers[rng.choice(HEADERS).encode()] = rng.choice(HEADER_VALUES).encode("latin-1")
        elif rng.random() < 0.5:
            method = rng.choice(("GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"))
        else:
            path = rng.choice(PATHS)
    return DamagedRequest(method, path, headers, b"" if method in ("GET", "HEAD") else content)


def damaged_bytes(rng: random.Random, content: bytes) -> bytes:
    """Cut, repeat, swap or overwrite bytes."""
    if not content:
        return rng.randbytes(rng.randrange(100))
    at, length = rng.randrange(len(content)), rng.randrange(1, 20)
    changed = {
        0: content[:at],
        1: content[:at] + rng.randbytes(length) + content[at + length :],
        2: content[:at] + content[at : at + length] * 3 + content[at + length :],
        3: content[at:] + content[:at],
        4: content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :],
        5: content + rng.randbytes(length),
    }
    return changed[rng.randrange(len(changed))]


def damaged_json(rng: random.Random, content: bytes) -> bytes:
    """Replace, remove or add a value anywhere in a JSON object."""
    try:
        tree = json.loads(content)
    except ValueError:
        return damaged_bytes(rng, content)
    node = tree
    while isinstance(node, dict | list) and node:
        key: Any = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        deeper = node[key]
        if not isinstance(deeper, dict | list) or rng.random() < 0.3:
            if rng.random() < 0.2:
                del node[key]
            else:
                node[key] = rng.choice(VALUES)
            break
        node = deeper
    if isinstance(tree, dict) and rng.random() < 0.2:
        tree[rng.choice(("parameters", "outputs", "id", "inputs"))] = rng.choice(VALUES)
    return json.dumps(tree).encode()

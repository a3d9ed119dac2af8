"""Compare certified functions by what headers record: the recipe's model, code, and logits of random images.

Weights alone do not determine a function: an activation, a number of heads or a hook may change, and so may the code of
a noise or a certifier of your own. Older headers record none of it and stay valid.
"""

from collections.abc import Mapping, Sequence
from typing import Any

FUNCTION = "function"
"""The header field that holds them."""
MODEL, CODE, LOGITS = "model", "code", "logits"
DEVICE = "device"
"""The kind of device that computed the logits, where others counted the votes."""
SAME_PLACE = 1e-5
"""How far logits may differ in the same environment, as a share of the largest logit of a class: they are rounded."""
ELSEWHERE = 1e-4
"""The same on another CPU, for engines of 32 bits."""
ON_GPUS = 0.01
"""The same where one of the two devices is a GPU, whose convolutions may round to TF32."""
COARSE = 0.05
"""The same for engines of 8 or 16 bits. docs/reliability.md has the measurements."""


def is_of_model(header: Mapping[str, Any], digest: str) -> bool:
    """Return whether a header is about the model with this digest, as far as it records its model."""
    recorded: object = header.get(FUNCTION, {}).get(MODEL, digest)
    return recorded == digest


def tolerance(engine: str, same_place: bool, on_cpus: bool) -> float:
    """Return the share of the largest logit of a class by which rounding may change its logits."""
    if same_place:
        return SAME_PLACE
    if is_coarse(engine):
        return COARSE
    return ELSEWHERE if on_cpus else ON_GPUS


def is_coarse(engine: str) -> bool:
    """Return whether an engine computes in 8 or 16 bits, as its name says."""
    return engine.endswith(("int8", "bf16", "fp16"))


def function_difference(recorded: Mapping[str, Any], current: Mapping[str, Any], limit: float) -> str:
    """Describe how a recorded function differs from the current one; empty if they agree where both are known."""
    if MODEL in recorded and MODEL in current and recorded[MODEL] != current[MODEL]:
        return "another model table in its recipe"
    here = current.get(CODE, {})
    for name, digest in recorded.get(CODE, {}).items():
        if digest is not None and here.get(name, digest) not in (None, digest):
            return f"other code of {name}"
    share = _logit_difference(recorded.get(LOGITS, []), current.get(LOGITS, []))
    if share <= limit:
        return ""
    return f"another function: logits of random images differ by {share:.2g} of their size, expected {limit:g} at most"


def _logit_difference(recorded: Sequence[Sequence[float]], current: Sequence[Sequence[float]]) -> float:
    """Return the largest difference, as a share of the largest logit of its class.

    The share is by class, because a class that is masked by a large constant must not hide the others. Rows that only
    one side has are left out.
    """
    pairs = list(zip(recorded, current, strict=False))
    if any(len(a) != len(b) for a, b in pairs):
        return float("inf")
    columns = zip(*([(x, y) for x, y in zip(a, b, strict=True)] for a, b in pairs), strict=True)
    return max(map(_column_difference, columns), default=0.0)


def _column_difference(column: Sequence[tuple[float, float]]) -> float:
    largest = max(abs(value) for pair in column for value in pair)
    difference = max(abs(x - y) for x, y in column)
    return difference / largest if largest else 0.0

"""The function that was certified, as a header records it: the recipe's model, and logits on drawn images.

Weights alone do not determine a function: an activation, a number of heads or a hook may change. Headers of older files
record neither, and stay valid.
"""

from collections.abc import Mapping, Sequence
from typing import Any

FUNCTION = "function"
"""The field of a header."""
MODEL, LOGITS = "model", "logits"
SAME_PLACE = 1e-4
"""How far logits may differ in one environment, as a share of the largest: the number of threads may vary."""
ELSEWHERE = 0.01
"""The same in another environment, for engines of 32 bits."""
COARSE = 0.05
"""The same for engines of 8 or 16 bits."""


def tolerance(engine: str, same_place: bool) -> float:
    """Return the share of the largest logit by which rounding may change logits."""
    if same_place:
        return SAME_PLACE
    return COARSE if engine.endswith(("int8", "bf16")) else ELSEWHERE


def function_difference(theirs: Mapping[str, Any], ours: Mapping[str, Any], most: float) -> str:
    """Describe how another function was certified; empty if it is the same as far as both are recorded."""
    if MODEL in theirs and MODEL in ours and theirs[MODEL] != ours[MODEL]:
        return "another model table in its recipe"
    share = _logit_difference(theirs.get(LOGITS, []), ours.get(LOGITS, []))
    if share <= most:
        return ""
    return f"another function: logits on drawn images differ by {share:.2g} of the largest, expected {most:g} at most"


def _logit_difference(theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> float:
    """Return the largest difference as a share of the largest logit; rows that only one side has are left out."""
    pairs = list(zip(theirs, ours, strict=False))
    if any(len(a) != len(b) for a, b in pairs):
        return float("inf")
    largest = max((abs(value) for pair in pairs for row in pair for value in row), default=0.0)
    differences = (abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=True))
    return max(differences, default=0.0) / largest if largest else 0.0

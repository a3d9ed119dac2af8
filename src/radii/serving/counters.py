"""Count what a server does, and write it in the text format of Prometheus."""

import threading
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from radii.serving.answer import Answer

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the intervals of the time that a request took, in seconds."""


class Counters:
    """Requests by outcome, abstentions, samples, and the time that requests took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._answers: Counter[tuple[str, str]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self.reloads = 0

    def request(self, route: str, status: int) -> None:
        """Count a request by its route and the status of its response."""
        with self._lock:
            self._requests[route, status] += 1

    def answer(self, answer: "Answer") -> None:
        """Count an answer by its mode, its outcome and its time."""
        with self._lock:
            self._answers[answer.model.mode, answer.outcome] += 1
            self._seconds += answer.seconds
            self._buckets[sum(answer.seconds > bound for bound in BUCKETS)] += 1

    def text(self, gauges: Iterable[tuple[str, str, str, float]]) -> str:
        """Return all counters, and the further ones in `gauges`: name, type, help and value."""
        with self._lock:
            lines = _table(
                "radii_http_requests_total", "Requests by route and status.", ("route", "status"), self._requests
            )
            lines += _table("radii_answers_total", "Answers by mode and outcome.", ("mode", "outcome"), self._answers)
            lines += _head("radii_answer_seconds", "histogram", "Seconds from the request to the answer.")
            total = 0
            for bound, answers in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
                total += answers
                lines.append(f'radii_answer_seconds_bucket{{le="{bound}"}} {total}')
            lines += [f"radii_answer_seconds_sum {self._seconds!r}", f"radii_answer_seconds_count {total}"]
        for name, kind, meaning, value in (*gauges, ("radii_reloads_total", "counter", "Reloads.", self.reloads)):
            lines += [*_head(name, kind, meaning), f"{name} {value!r}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _table(
    name: str, meaning: str, labels: tuple[str, str], values: Counter[tuple[str, str]] | Counter[tuple[str, int]]
) -> list[str]:
    rows = [f'{name}{{{labels[0]}="{one}",{labels[1]}="{other}"}} {value}' for (one, other), value in values.items()]
    return [*_head(name, "counter", meaning), *rows]

"""The input and the result of an item of the stress tests."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Effort:
    """How much an item tries, and where."""

    folder: Path
    """An empty folder for this item."""
    short: bool = False
    seed: int = 0

    def times(self, full: int, short: int) -> int:
        """Return the number of tries, `full` or `short`."""
        return short if self.short else full


@dataclass(frozen=True)
class Outcome:
    """How often an item tried, and what failed."""

    tried: Mapping[str, int]
    """Numbers of tries, by what was tried."""
    bad: Mapping[str, Sequence[str]]
    """Failures, by their kind; each is described by a text."""
    remark: str = ""
    """Other results, in words."""
    seconds: float = field(default=0.0, compare=False)

    @property
    def cases(self) -> list[str]:
        """Return all failures as texts."""
        return [f"{kind}: {case}" for kind, cases in self.bad.items() for case in cases]


Item = Callable[[Effort], Outcome]
"""A function whose docstring says what is tried; docs/reliability.md shows it."""


def refused(act: Callable[[], object], words: str) -> bool:
    """Return whether an action raises a ValueError that matches `words`; other errors are not a refusal."""
    try:
        act()
    except ValueError as error:
        return re.search(words, str(error)) is not None
    return False

"""What an item of the long run is given, and what it tells."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Effort:
    """How much is to be tried, and where."""

    folder: Path
    """Empty, for this item alone."""
    short: bool = False
    seed: int = 0

    def times(self, full: int, short: int) -> int:
        """How often, in the full form and in the short one."""
        return short if self.short else full


@dataclass(frozen=True)
class Outcome:
    """What was tried, how often, and what came out."""

    tried: Mapping[str, int]
    """Numbers of tries, by a word for each."""
    bad: Mapping[str, Sequence[str]]
    """What must not happen, by a word for each kind, and every case of it in words."""
    remark: str = ""
    """What else came out."""
    seconds: float = field(default=0.0, compare=False)

    @property
    def cases(self) -> list[str]:
        """Everything that must not have happened."""
        return [f"{kind}: {case}" for kind, cases in self.bad.items() for case in cases]


Item = Callable[[Effort], Outcome]
"""Its docstring says what is tried."""


def refused(act: Callable[[], object], words: str) -> bool:
    """Whether it ends in an error of these words, a pattern; any other error is no refusal."""
    try:
        act()
    except ValueError as error:
        return re.search(words, str(error)) is not None
    return False

"""Count what a newcomer types and reads until a first hardened model: python -m tools.reading prints both numbers."""

import re
from pathlib import Path
from typing import NamedTuple

from tools.manual.blocks import commands

PAGE = Path(__file__).parents[1] / "docs" / "first-hour.md"
LAST = "radii harden"
"""The command that makes the model."""
MOST_COMMANDS, MOST_WORDS = 5, 600


class Reading(NamedTuple):
    """How many commands, and how many words with those in code, stand before the end of the command that hardens."""

    commands: int
    words: int


def count(page: Path = PAGE) -> Reading:
    """Count the commands and words of the page up to the block of the last command."""
    text = page.read_text()
    end = text.index("```", text.index(LAST + " runs/"))
    read = text[: end + 3]
    typed = [words for block in re.findall(r"```sh\n(.*?)```", read, re.DOTALL) for words in commands(block)]
    return Reading(len(typed), len(re.findall(r"[\w./%'-]*\w[\w./%'-]*", read)))


if __name__ == "__main__":
    print("{} commands, {} words".format(*count()))

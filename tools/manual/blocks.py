"""Find the code blocks of a page, for tests to run in order.

A comment above a block changes that: `<!-- file: NAME -->` writes it to a file, `<!-- not run: REASON -->` only parses
it.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(
    r"(?:^<!-- (?P<what>file|not run): (?P<said>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
INDENTED = re.compile(r"^    (radii .*(?:\\\n.*)*)$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    text: str
    line: int
    file: str | None = None
    """The file that it is written to instead of being run."""
    reason: str | None = None
    """Why it is not run."""


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(
            found["language"],
            found["text"],
            text[: found.start()].count("\n") + 1,
            file=found["said"] if found["what"] == "file" else None,
            reason=found["said"] if found["what"] == "not run" else None,
        )
        for found in FENCE.finditer(text)
    ]


def commands(text: str) -> list[list[str]]:
    """Return the commands of a shell block as words; a comment is left out."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def every_command(page: Path) -> list[list[str]]:
    """Return every `radii` command of a page, in fenced blocks and in indented ones."""
    text = page.read_text()
    fenced = [words for block in blocks(page) if block.language == "sh" for words in commands(block.text)]
    indented = [words for found in INDENTED.findall(FENCE.sub("", text)) for words in commands(found)]
    return [words for words in (*fenced, *indented) if words[0] == "radii"]

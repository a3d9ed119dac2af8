"""The references of the manual, made from the code when the site is built.

A line `<!-- made: NAME -->` of a page is replaced by what MADE[NAME] writes; a line `?NAME` of a table of contents is
kept where there is such a page.
"""

import re
from collections.abc import Callable
from pathlib import Path

from tools.manual import commands, components, papers, python

MADE: dict[str, Callable[[], str]] = {
    "recipe": components.recipe,
    "training": components.training,
    "objectives": components.objectives,
    "models": components.models,
    "denoisers": components.denoisers,
    "datasets": components.datasets,
    "noises": components.noises,
    "certifiers": components.certifier_shelf,
    "engines": components.engine_shelf,
    "recipes": components.recipes,
    "commands": commands.reference,
    "python": python.reference,
    "tables": papers.tables,
}
DOCS = Path(__file__).parents[2] / "docs"
OPTIONAL = re.compile(r"^\?(\w+)\n", re.MULTILINE)
MARK = re.compile(r"^<!-- made: (\w+) -->$", re.MULTILINE)


def fill(page: str) -> str:
    """A page with its references filled in."""
    there = OPTIONAL.sub(lambda found: f"{found[1]}\n" if (DOCS / f"{found[1]}.md").is_file() else "", page)
    return MARK.sub(lambda found: MADE[found[1]](), there)

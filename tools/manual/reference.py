"""The references of the manual, made from the code when the site is built.

A line `<!-- made: NAME -->` of a page is replaced by what MADE[NAME] writes.
"""

import re
from collections.abc import Callable

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
MARK = re.compile(r"^<!-- made: (\w+) -->$", re.MULTILINE)


def fill(page: str) -> str:
    """A page with its references filled in."""
    return MARK.sub(lambda found: MADE[found[1]](), page)
